local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local cost_1, limit_1, window_1 = ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0
local start_1, used_1, remaining_1, reset_1, retry_1, before_1 = now - now % window_1, 0, 0, 0, 0, 0
local base_1 = start_1 / window_1 % 2^22 * 2^31
do
  local stored = tonumber(call('GET', KEYS[1]))
  if stored then
    local count = stored % 2147483648
    if stored - count == base_1 then used_1 = count end
  end
  local left = start_1 + window_1 - now
  if used_1 > 0 then before_1 = left end
  if used_1 < limit_1 then remaining_1 = limit_1 - used_1 end
  reset_1 = before_1
  if cost_1 > remaining_1 then retry_1 = cost_1 > limit_1 and -1 or left end
end
local cost_2, limit_2, ttl_2 = ARGV[4] + 0, ARGV[6] + 0, ARGV[7] + 0
local last_2, extra_2, gone_2, stop_2 = 0, 0, 0
local remaining_2, retry_2 = 0, 0
do
  stop_2 = string.format('%d', now + ttl_2)
  local plain = call('ZCOUNT', KEYS[2], string.format('(%d', now), stop_2)
  local used = plain < limit_2 and call('ZCARD', KEYS[2]) or plain
  if plain < used then
    local first = call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
    if first[1] == '' and first[2] + 0 < 0 then -- some have several slots
      used, extra_2 = used - 1, 0 - first[2]
    end
  end
  if plain < used then -- some may have ended
    local till, extra = string.format('%d', now), extra_2
    for _, member in ipairs(extra > 0 and call('ZRANGEBYSCORE', KEYS[2], 1, till) or {}) do
      extra = extra + 1 - (tonumber(string.match(member, ':(%d+)$')) or 1)
    end
    used = used - call('ZREMRANGEBYSCORE', KEYS[2], 1, till)
    if extra < extra_2 then
      call('ZADD', KEYS[2], 0 - extra, '')
      if extra <= 0 then call('ZREM', KEYS[2], '') end
      extra_2 = extra
    end
  end
  if plain < used then -- some end later than in a ttl
    last_2 = call('ZRANGE', KEYS[2], -1, -1, 'WITHSCORES')[2] + 0
    if last_2 > now + 3600000000 then -- the clock was set back
      last_2 = now + 3600000000
      local latest = string.format('%d', last_2)
      for _, member in ipairs(call('ZRANGEBYSCORE', KEYS[2], '(' .. latest, '+inf')) do
        call('ZADD', KEYS[2], latest, member)
      end
      call('PEXPIREAT', KEYS[2], string.format('%d', math.ceil(last_2 / 1000)))
    end
  end
  used = used + extra_2
  if used < limit_2 then remaining_2 = limit_2 - used end
  if cost_2 > remaining_2 then retry_2 = cost_2 > limit_2 and -1 or 1000000 end
end
if retry_1 == 0 and retry_2 == 0 then
  if cost_1 > 0 then
    remaining_1, reset_1 = remaining_1 - cost_1, start_1 + window_1 - now
    if used_1 > 0 then
      call('INCRBY', KEYS[1], ARGV[1])
    else
      local state = string.format('%d', base_1 + cost_1)
      call('SET', KEYS[1], state, 'PXAT', string.format('%d', (start_1 + window_1) / 1000))
    end
  end
  if cost_2 > 0 then
    remaining_2 = remaining_2 - cost_2
    local entry = ARGV[5] .. ':' .. ARGV[4]
    if cost_2 > 1 then
      call('ZADD', KEYS[2], 1 - cost_2 - extra_2, '', stop_2, entry)
    else
      call('ZADD', KEYS[2], stop_2, entry)
    end
    call('PEXPIREAT', KEYS[2], string.format('%d', math.ceil(math.max(now + ttl_2, last_2) / 1000)))
  end
end
return {now, remaining_1, reset_1, retry_1, before_1, remaining_2, retry_2}
