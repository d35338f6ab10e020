local call, try, KEYS, ARGV = redis.call, redis.pcall, KEYS, ARGV
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local key, window, cost, limit = KEYS[1], ARGV[3] + 0, ARGV[1] + 0, ARGV[2] + 0
local start, used, stored = now, 0, try('GET', key)
if stored and #stored == 12 then
  local begin, count = struct.unpack('<dI4', stored)
  if count > 0 and begin < 2^53 and now - begin < window then
    if begin > now then -- the clock was set back
      begin = now
      local state = struct.pack('<dI4', begin, count)
      call('SET', key, state, 'PXAT', string.format('%d', math.ceil((now + window) / 1000)))
    end
    start, used = math.floor(begin), math.floor(count)
  end
elseif stored then
  if stored.err and not string.find(stored.err, 'WRONGTYPE', 1, true) then return stored end
  call('DEL', key)
end
local stop = start + window
local remaining, reset, retry, before, left = 0, 0, 0, 0, stop - now
if used > 0 then before, reset = left, left end
if used < limit then remaining = limit - used end
if cost > remaining then retry = cost > limit and -1 or left end
local reset_1 = reset
if retry == 0 and cost > 0 then
  remaining = remaining - cost
  local reset = stop - now
  local state = struct.pack('<dI4', start, used + cost)
  if used > 0 then
    call('SET', key, state, 'KEEPTTL')
  else
    call('SET', key, state, 'PXAT', string.format('%d', math.ceil(stop / 1000)))
  end
  reset_1 = reset
end
return {now, remaining, reset_1, retry, before}
