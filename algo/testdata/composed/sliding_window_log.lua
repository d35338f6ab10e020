local call, try, KEYS, ARGV = redis.call, redis.pcall, KEYS, ARGV
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local key, window, cost, limit = KEYS[1], ARGV[3] + 0, ARGV[1] + 0, ARGV[2] + 0
local entry = try('ZRANGE', key, -1, -1, 'WITHSCORES')
if not entry[2] then
  if entry.err then
    local stored = entry
    if stored.err and not string.find(stored.err, 'WRONGTYPE', 1, true) then return stored end
    call('DEL', key)
    entry = {}
  end
elseif entry[2] + 0 > now then -- the clock was set back
  local from, first, units, total = string.format('%d', now), nil, 0, 0
  for _, member in ipairs(call('ZRANGEBYSCORE', key, from, '+inf')) do
    if #member == 16 then
      local time, more, all = struct.unpack('<dI4I4', member)
      first, units, total = first or time, units + more, all
    end
  end
  call('ZREMRANGEBYSCORE', key, from, '+inf')
  if first then
    call('ZADD', key, from, struct.pack('<dI4I4', first < now and first or now, units, total))
    call('PEXPIREAT', key, string.format('%d', math.ceil((now + window) / 1000)))
  end
  entry = call('ZRANGE', key, -1, -1, 'WITHSCORES')
end
local newest, last, used, stale, before = nil, 0, 0, false, 0
if entry[1] and #entry[1] == 16 then
  newest, last = entry[1], entry[2] + 0
  local gone = now - window
  if last > gone then
    local _, _, total = struct.unpack('<dI4I4', newest)
    for _, member in ipairs(call('ZRANGEBYSCORE', key, '-inf', string.format('%d', gone))) do
      if #member == 16 then
        local _, units = struct.unpack('<dI4I4', member)
        total = total - units
      end
      stale = true
    end
    used, before = math.floor(total), last + window - now
  else
    newest, stale = nil, true
  end
end
local remaining, reset, retry = 0, before, 0
if used < limit then remaining = limit - used end
if cost > remaining then
  retry = -1
  local excess, after = used + cost - limit, string.format('(%d', now - window)
  local offset, count = 0, cost <= limit and 1 or 0
  while count > 0 do
    local entries = call('ZRANGEBYSCORE', key, after, '+inf', 'WITHSCORES', 'LIMIT', offset, count)
    for i = 1, #entries, 2 do
      if excess > 0 and #entries[i] == 16 then
        local _, units = struct.unpack('<dI4I4', entries[i])
        excess = excess - units
        if excess <= 0 then retry = entries[i + 1] + window - now end
      end
    end
    offset, count = offset + count, excess > 0 and entries[1] and 8 * count or 0
  end
end
local reset_1 = reset
if retry == 0 and cost > 0 then
  remaining = remaining - cost
  local reset = window
  if stale then
    call('ZREMRANGEBYSCORE', key, '-inf', string.format('%d', now - window))
  end
  local first, units = now, cost
  if newest then
    local cell = math.ceil(window / 2048)
    if last == now or used >= 2048 and now - now % cell <= last and call('ZCARD', key) >= 2048 then
      call('ZREM', key, newest)
      first, units = struct.unpack('<dI4I4', newest)
      units = units + cost
    end
  end
  call('ZADD', key, string.format('%d', now), struct.pack('<dI4I4', first, units, used + cost))
  call('PEXPIREAT', key, string.format('%d', math.ceil((now + window) / 1000)))
  reset_1 = reset
end
return {now, remaining, reset_1, retry, before}
