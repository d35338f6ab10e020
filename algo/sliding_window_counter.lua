-- Sliding window counter: a count for each of the N sub-windows of a window. The
-- window that ends now holds N of them whole, of the one before only the part
-- that has not left yet, and takes its units to be spread evenly.
--
-- KEYS[1]  the limit's key
-- ARGV[1]  cost, in units
-- ARGV[3]  size of a sub-window, us
-- ARGV[4]  window = N * size, us
-- ARGV[5]  limit, units in a window
-- ARGV[6]  step: the part is measured in steps of so many us, see the .go file
-- ARGV[7]  steps in a sub-window: size / step, rounded up
-- Reply    remaining (units), reset_after (us), retry_after (us; 0 admitted,
--          -1 never)
-- State    HASH: start of a sub-window (us since the Unix epoch) -> units charged
--          in it. Sub-windows of another size, from before a change of N, count
--          as if they lay in the one they start in.
-- TTL      until the last sub-window has left the window
--
-- `now` is Redis' time in us. Fields that make no sense are removed.

--- constants
local size_1, window_1, steps_1 = ARGV[3] + 0, ARGV[4] + 0, ARGV[7] + 0

--- check
local remaining_1, reset_1, retry_1 = 0, 0, 0
local start_1, free_1, here_1, stale_1 = now - now % size_1
do
  local limit, step, whole, part, newest = ARGV[5] + 0, ARGV[6] + 0, 0, 0
  local hash = call('HGETALL', KEYS[1])
  for i = 1, #hash, 2 do
    local start, count = tonumber(hash[i]) or -1, tonumber(hash[i + 1]) or 0
    if start == start_1 then here_1 = count end
    start = start - start % size_1
    local age = start_1 - start
    if age >= 0 and age <= window_1 then
      if age < window_1 then whole = whole + count else part = part + count end
      if not newest or start > newest then newest = start end
    elseif not (age < 0) then
      stale_1 = stale_1 or {}
      stale_1[#stale_1 + 1] = hash[i]
    end
  end
  local off = now - start_1
  -- Both in units * steps, so that all is whole numbers.
  free_1 = (limit - whole) * steps_1 - part * (steps_1 - (off - off % step) / step)
  if newest then reset_1 = newest + size_1 + window_1 - now end
  if free_1 < cost * steps_1 then
    retry_1 = -1
    if cost <= limit then
      local counts = {}
      for i = 1, #hash, 2 do
        local start = tonumber(hash[i]) or -1
        local age = (start_1 - (start - start % size_1)) / size_1
        counts[age] = (counts[age] or 0) + (tonumber(hash[i + 1]) or 0)
      end
      -- The oldest sub-window, in age, that the window may hold in part.
      local age, room = 0, limit - cost
      while age * size_1 < window_1 and room >= (counts[age] or 0) do
        room = room - (counts[age] or 0)
        age = age + 1
      end
      local most = room * steps_1 / (counts[age] or 1)
      local left = (steps_1 - (most - most % 1)) * step
      if left > size_1 then left = size_1 end
      retry_1 = start_1 + window_1 - age * size_1 + left - now
    end
  end
end

--- charge
if stale_1 then
  for i = 1, #stale_1 do call('HDEL', KEYS[1], stale_1[i]) end
end
call('HSET', KEYS[1], string.format('%d', start_1), (here_1 or 0) + cost)
do
  local stop = start_1 + size_1 + window_1
  if not here_1 then call('PEXPIREAT', KEYS[1], (stop + -stop % 1000) / 1000) end
  free_1 = free_1 - cost * steps_1
  remaining_1, reset_1 = (free_1 - free_1 % steps_1) / steps_1, stop - now
end

--- report
if free_1 > 0 then remaining_1 = (free_1 - free_1 % steps_1) / steps_1 end

--- refund
do
  local field = string.format('%d', charged - charged % size_1)
  local count = tonumber(call('HGET', KEYS[1], field))
  if count and now - now % size_1 - field <= window_1 then
    if count > cost then
      call('HSET', KEYS[1], field, count - cost)
    else
      call('HDEL', KEYS[1], field)
      local fields, stop = call('HKEYS', KEYS[1]), 0
      for i = 1, #fields do
        local start = tonumber(fields[i]) or 0
        start = start - start % size_1
        if start > stop then stop = start end
      end
      stop = stop + size_1 + window_1
      if #fields > 0 then call('PEXPIREAT', KEYS[1], (stop + -stop % 1000) / 1000) end
    end
  end
end
