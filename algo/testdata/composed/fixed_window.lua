local call, try, KEYS, ARGV = redis.call, redis.pcall, KEYS, ARGV
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local window, key, cost, limit = ARGV[3] + 0, KEYS[1], ARGV[1] + 0, ARGV[2] + 0
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
local reset_1 = reset
if retry == 0 and cost > 0 then
  local units = ARGV[1]
  remaining = remaining - cost
  local reset = stop - now
  local number = base + used + cost
  if used == 0 or try('INCRBY', key, units) ~= number then -- no integer to Redis: 0x1
    local state = string.format('%d', number)
    call('SET', key, state, 'PXAT', string.format('%d', stop / 1000))
  end
  reset_1 = reset
end
return {now, remaining, reset_1, retry, before}
