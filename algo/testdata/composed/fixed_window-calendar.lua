local call, try, KEYS, ARGV = redis.call, redis.pcall, KEYS, ARGV
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local start_1, stop_1
do
  local first, second, third, last = ARGV[3], ARGV[4], ARGV[5], ARGV[6]
  local start, stop = second + 0, third + 0
  if now < start then
    start, stop = first + 0, start
  elseif now >= stop then
    start, stop = stop, last + 0
  end
  if now < start or now >= stop then return {now} end
  start_1, stop_1 = start, stop
end
local cost_1, base_1, used_1, remaining_1, reset_1, retry_1, before_1
do
  local start, key, cost, limit, stop = start_1, KEYS[1], ARGV[1] + 0, ARGV[2] + 0, stop_1
  local base = start / 60000000 % 2^22 * 2^31
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
  cost_1, base_1, used_1, remaining_1, reset_1, retry_1, before_1 = cost, base, used, remaining, reset, retry, before
end
if retry_1 == 0 then
  if cost_1 > 0 then
    local key, cost, units, base, stop, used, remaining = KEYS[1], cost_1, ARGV[1], base_1, stop_1, used_1, remaining_1
    remaining = remaining - cost
    local reset = stop - now
    local number = base + used + cost
    if used == 0 or try('INCRBY', key, units) ~= number then -- no integer to Redis: 0x1
      local state = string.format('%d', number)
      call('SET', key, state, 'PXAT', string.format('%d', stop / 1000))
    end
    remaining_1, reset_1 = remaining, reset
  end
end
return {now, remaining_1, reset_1, retry_1, before_1, start_1}
