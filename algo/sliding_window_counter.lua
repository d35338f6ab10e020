-- Sliding window counter: a count for each of the N sub-windows of a window. The
-- window that ends now holds N of them whole, the current one as far as it has
-- come; of the one before them only the part that has not left yet, and its units
-- are taken to be spread evenly.
--
-- KEYS[1]  the limit's key
-- ARGV[1]  cost, in units
-- ARGV[2]  not used
-- ARGV[3]  limit, units in a window
-- ARGV[4]  size of a sub-window, us
-- ARGV[5]  N, for more than one sub-window
-- Reply    remaining (units), reset_after (us), retry_after (us; 0 admitted,
--          -1 never)
-- State    HASH: start of a sub-window (us since the Unix epoch) -> units charged
--          in it. Starts that are no multiple of size, from before a change of N,
--          and garbage do not count.
-- TTL      until the last sub-window has left the window
--
-- `now` is Redis' time in us.
--
-- compose.go makes scripts of the sections below: _1 and [1] stand for the limit's
-- place in its policy; in a refund the constants come one argument later.

--- locals one
local limit_1, size_1 = ARGV[3] + 0, ARGV[4] + 0
local window_1, start_1 = size_1, now - now % size_1
local field_1, here_1, free_1, steps_1 = string.format('%d', start_1)
local remaining_1, reset_1, retry_1 = 0, 0, 0

--- locals several
local limit_1, size_1 = ARGV[3] + 0, ARGV[4] + 0
local window_1, start_1 = size_1 * ARGV[5], now - now % size_1
local field_1, here_1, free_1, steps_1 = string.format('%d', start_1)
local remaining_1, reset_1, retry_1 = 0, 0, 0

--- count one
local counts = call('HMGET', KEYS[1], field_1, string.format('%d', start_1 - size_1))
here_1 = tonumber(counts[1])
local whole, part = here_1 or 0, tonumber(counts[2]) or 0
if here_1 then
  reset_1 = start_1 + size_1 + size_1 - now
elseif part > 0 then
  reset_1 = start_1 + size_1 - now
end

--- count several
local hash = call('HGETALL', KEYS[1])
local whole, part = 0, 0
for i = 1, #hash, 2 do
  local age, count = start_1 - (tonumber(hash[i]) or 0), tonumber(hash[i + 1])
  if count and age >= 0 and age <= window_1 and age % size_1 == 0 then
    if age == 0 then here_1 = count end
    if age < window_1 then whole = whole + count else part = count end
    local left = start_1 - age + size_1 + window_1 - now
    if left > reset_1 then reset_1 = left end
  end
end

--- weigh
-- Negative counts, and such as are no numbers, are not ours.
if not (whole >= 0 and part >= 0) then
  here_1, whole, part = nil, 0, 0
end
-- In units * steps all numbers are whole. A step is so many us that doubles hold
-- them.
local step, off = 1, now - start_1
steps_1 = size_1
while limit_1 * steps_1 > 2^52 do
  step = step + step
  steps_1 = (size_1 + -size_1 % step) / step
end
free_1 = (limit_1 - whole) * steps_1 - part * (steps_1 - (off - off % step) / step)
if free_1 < cost * steps_1 then retry_1 = -1 end
local room, wait = limit_1 - cost

--- wait one
-- Of the previous window enough must leave, or all of it and enough of this one.
if retry_1 < 0 and room >= 0 then
  if room >= whole then
    room, wait = room - whole, 0
  else
    part, wait = whole, size_1
  end
end

--- wait several
-- Enough must leave of the oldest sub-window without which all newer ones fit.
if retry_1 < 0 and room >= 0 then
  local counts, age = {}, 0
  for i = 1, #hash, 2 do
    counts[start_1 - (tonumber(hash[i]) or 0)] = tonumber(hash[i + 1])
  end
  while age < window_1 and room >= (counts[age] or 0) do
    room = room - (counts[age] or 0)
    age = age + size_1
  end
  part, wait = counts[age], window_1 - age
end

--- retry
if wait then
  local stay = room * steps_1 / part
  local leave = (steps_1 - (stay - stay % 1)) * step
  retry_1 = wait + (leave < size_1 and leave or size_1) - off
end

--- charge
local stop = start_1 + size_1 + window_1
free_1 = free_1 - cost * steps_1
remaining_1, reset_1 = (free_1 - free_1 % steps_1) / steps_1, stop - now
call('HSET', KEYS[1], field_1, (here_1 or 0) + cost)
if not here_1 then
  for _, field in ipairs(call('HKEYS', KEYS[1])) do
    local age = start_1 - (tonumber(field) or 0)
    if not (age <= window_1) then call('HDEL', KEYS[1], field) end
  end
  call('PEXPIREAT', KEYS[1], string.format('%d', (stop + 999) / 1000))
end

--- report
if free_1 > 0 then remaining_1 = (free_1 - free_1 % steps_1) / steps_1 end

--- refund
local field = string.format('%d', charged - charged % size_1)
local count = tonumber(call('HGET', KEYS[1], field))
if count and start_1 - field <= window_1 then
  if count > cost then
    call('HSET', KEYS[1], field, count - cost)
  else
    call('HDEL', KEYS[1], field)
    local newest = 0
    for _, start in ipairs(call('HKEYS', KEYS[1])) do
      start = tonumber(start) or 0
      if start > newest then newest = start end
    end
    call('PEXPIREAT', KEYS[1], string.format('%d', (newest + size_1 + window_1 + 999) / 1000))
  end
end
