local call, try, KEYS, ARGV = redis.call, redis.pcall, KEYS, ARGV
local math, string = math, string
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local units, cost_1, cost_2, units_1, units_2 = ARGV[1]
if #units > 1 and string.find(units, ' ', 1, true) then
  cost_1, cost_2 = string.match(units, '(%S+) (%S+)')
  units_1 = cost_1
  units_2 = cost_2
  cost_1, cost_2 = cost_1 + 0, cost_2 + 0
else
  cost_1 = units + 0
  cost_2 = cost_1
  units_1 = units
  units_2 = units
end
local limit_1, window_1, limit_2, ttl_2 = struct.unpack('<dddd', ARGV[3])
limit_1, window_1, limit_2, ttl_2 = math.floor(limit_1), math.floor(window_1), math.floor(limit_2), math.floor(ttl_2)
local stop_1, base_1, used_1, remaining_1, reset_1, retry_1, before_1
do
  local window, key, cost, limit = window_1, KEYS[1], cost_1, limit_1
  local start = now - now % window
  local stop, base = start + window, start / window % 2^22 * 2^31
  local used, stored = 0, try('GET', key)
  local number = tonumber(stored)
  if number then
    local count = number % 2147483648
    if number - count == base then
      used = count
    elseif #stored > 16 then
      number = nil
      if stored.err and not string.find(stored.err, 'WRONGTYPE', 1, true) then return stored end
      call('DEL', key)
    end
  elseif stored then
    if stored.err and not string.find(stored.err, 'WRONGTYPE', 1, true) then return stored end
    call('DEL', key)
  end
  local remaining, reset, retry, before, left = 0, 0, 0, 0, stop - now
  if used > 0 then before, reset = left, left end
  if used < limit then remaining = limit - used end
  if cost > remaining then retry = cost > limit and -1 or left end
  stop_1, base_1, used_1, remaining_1, reset_1, retry_1, before_1 = stop, base, used, remaining, reset, retry, before
end
local last_2, extra_2, stop_2, remaining_2, retry_2
do
  local key, limit, ttl, cost = KEYS[2], limit_2, ttl_2, cost_2
  local last, extra, stop = 0, 0, string.format('%d', now + ttl)
  local plain = try('ZCOUNT', key, string.format('(%d', now), stop)
  if type(plain) == 'table' then
    local stored = plain
    if stored.err and not string.find(stored.err, 'WRONGTYPE', 1, true) then return stored end
    call('DEL', key)
    plain = 0
  end
  local used = plain < limit and call('ZCARD', key) or plain
  if plain < used then
    local first = call('ZRANGE', key, 0, 0, 'WITHSCORES')
    if first[1] == '' and first[2] + 0 < 0 then -- some have several slots
      used, extra = used - 1, 0 - first[2]
    end
  end
  if plain < used then -- some may have ended
    local till, left = string.format('%d', now), extra
    for _, member in ipairs(left > 0 and call('ZRANGEBYSCORE', key, 1, till) or {}) do
      left = left + 1 - (tonumber(string.match(member, ':(%d+)$')) or 1)
    end
    used = used - call('ZREMRANGEBYSCORE', key, 1, till)
    if left < extra then
      call('ZADD', key, 0 - left, '')
      if left <= 0 then call('ZREM', key, '') end
      extra = left
    end
  end
  if plain < used then -- some end later than in a ttl
    last = call('ZRANGE', key, -1, -1, 'WITHSCORES')[2] + 0
    if last > now + 3600000000 then -- the clock was set back
      last = now + 3600000000
      local latest = string.format('%d', last)
      for _, member in ipairs(call('ZRANGEBYSCORE', key, '(' .. latest, '+inf')) do
        call('ZADD', key, latest, member)
      end
      call('PEXPIREAT', key, string.format('%d', math.ceil(last / 1000)))
    end
  end
  used = used + extra
  local remaining, retry = 0, 0
  if used < limit then remaining = limit - used end
  if cost > remaining then retry = cost > limit and -1 or 1000000 end
  last_2, extra_2, stop_2, remaining_2, retry_2 = last, extra, stop, remaining, retry
end
if retry_1 == 0 and retry_2 == 0 then
  if cost_1 > 0 then
    local key, cost, units, base, stop, used, remaining = KEYS[1], cost_1, units_1, base_1, stop_1, used_1, remaining_1
    remaining = remaining - cost
    local reset = stop - now
    local number = base + used + cost
    if used == 0 or try('INCRBY', key, units) ~= number then -- no integer to Redis: 0x1
      local state = string.format('%d', number)
      call('SET', key, state, 'PXAT', string.format('%d', stop / 1000))
    end
    remaining_1, reset_1 = remaining, reset
  end
  if cost_2 > 0 then
    local key, cost, units, nonce, ttl, last, extra, stop, remaining = KEYS[2], cost_2, units_2, ARGV[2], ttl_2, last_2, extra_2, stop_2, remaining_2
    remaining = remaining - cost
    local entry = nonce .. ':' .. units
    if cost > 1 then
      call('ZADD', key, 1 - cost - extra, '', stop, entry)
    else
      call('ZADD', key, stop, entry)
    end
    call('PEXPIREAT', key, string.format('%d', math.ceil(math.max(now + ttl, last) / 1000)))
    remaining_2 = remaining
  end
end
return {now, remaining_1, reset_1, retry_1, before_1, remaining_2, retry_2}
