local call, try, KEYS, ARGV = redis.call, redis.pcall, KEYS, ARGV
local math, string, struct = math, string, struct
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local units, cost_1, cost_2, units_2 = ARGV[1]
if #units > 1 and string.find(units, ' ', 1, true) then
  cost_1, cost_2 = string.match(units, '(%S+) (%S+)')
  units_2 = cost_2
  cost_1, cost_2 = cost_1 + 0, cost_2 + 0
else
  cost_1 = units + 0
  cost_2 = cost_1
  units_2 = units
end
local limit_1, window_1, limit_2, first_2, second_2, third_2, last_2 = struct.unpack('<ddddddd', ARGV[2])
limit_1, window_1, limit_2, first_2, second_2, third_2, last_2 = math.floor(limit_1), math.floor(window_1), math.floor(limit_2), math.floor(first_2), math.floor(second_2), math.floor(third_2), math.floor(last_2)
local start_2, stop_2
do
  local first, second, third, last = first_2, second_2, third_2, last_2
  local start, stop = second + 0, third + 0
  if now < start then
    start, stop = first + 0, start
  elseif now >= stop then
    start, stop = stop, last + 0
  end
  if now < start or now >= stop then return {now} end
  start_2, stop_2 = start, stop
end
local start_1, stop_1, used_1, remaining_1, reset_1, retry_1, before_1
do
  local key, window, cost, limit = KEYS[1], window_1, cost_1, limit_1
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
  start_1, stop_1, used_1, remaining_1, reset_1, retry_1, before_1 = start, stop, used, remaining, reset, retry, before
end
local base_2, used_2, remaining_2, reset_2, retry_2, before_2
do
  local start, key, cost, limit, stop = start_2, KEYS[2], cost_2, limit_2, stop_2
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
  base_2, used_2, remaining_2, reset_2, retry_2, before_2 = base, used, remaining, reset, retry, before
end
if retry_1 == 0 and retry_2 == 0 then
  if cost_1 > 0 then
    local key, cost, start, stop, used, remaining = KEYS[1], cost_1, start_1, stop_1, used_1, remaining_1
    remaining = remaining - cost
    local reset = stop - now
    local state = struct.pack('<dI4', start, used + cost)
    if used > 0 then
      call('SET', key, state, 'KEEPTTL')
    else
      call('SET', key, state, 'PXAT', string.format('%d', math.ceil(stop / 1000)))
    end
    remaining_1, reset_1 = remaining, reset
  end
  if cost_2 > 0 then
    local key, cost, units, base, stop, used, remaining = KEYS[2], cost_2, units_2, base_2, stop_2, used_2, remaining_2
    remaining = remaining - cost
    local reset = stop - now
    local number = base + used + cost
    if used == 0 or try('INCRBY', key, units) ~= number then -- no integer to Redis: 0x1
      local state = string.format('%d', number)
      call('SET', key, state, 'PXAT', string.format('%d', stop / 1000))
    end
    remaining_2, reset_2 = remaining, reset
  end
end
return {now, remaining_1, reset_1, retry_1, before_1, remaining_2, reset_2, retry_2, before_2, start_2}
