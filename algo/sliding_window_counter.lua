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
-- State    STRING: start of the newest sub-window (us since the Unix epoch, a
--          little-endian double), then the counts of it and of the N before it,
--          newest first, 32 bits each. What another N has left, and garbage,
--          count as no key.
-- TTL      until the last sub-window with a count has left the window
--
-- `now` is Redis' time in us. counts_1 is the state as of now: the start at 1,
-- the current sub-window's count at 2, the one's partly outside at N + 2.
--
-- compose.go makes scripts of the sections below: _1 and [1] stand for the limit's
-- place in its policy; in a refund the constants come one argument later.

--- locals one
local size_1, n_1 = ARGV[4] + 0, 1
local start_1, here_1, part_1, grows_1 = now - now % size_1, 0, 0
local free_1, steps_1, remaining_1, reset_1, retry_1 = 0, size_1, 0, 0, 0

--- locals several
local size_1, n_1 = ARGV[4] + 0, ARGV[5] + 0
local start_1, counts_1, grows_1 = now - now % size_1, {}
local free_1, steps_1, remaining_1, reset_1, retry_1 = 0, size_1, 0, 0, 0

--- count one
local stored = call('GET', KEYS[1])
if stored and #stored == 16 then
  local newest, count, before = struct.unpack('<dI4I4', stored)
  if newest == start_1 then
    here_1, part_1, grows_1 = count, before, true
  elseif newest == start_1 - size_1 then
    part_1 = count
  elseif newest == start_1 + size_1 then -- the clock was set back
    here_1 = before
  end
  if here_1 > 0 then
    reset_1 = start_1 + size_1 + size_1 - now
  elseif part_1 > 0 then
    reset_1 = start_1 + size_1 - now
  end
end
local whole = here_1

--- count several
local stored, whole, part_1 = call('GET', KEYS[1]), 0, 0
if stored and #stored == 4 * n_1 + 12 then
  counts_1 = {struct.unpack('<d' .. string.rep('I4', n_1 + 1), stored)}
  local behind = (start_1 - counts_1[1]) / size_1 -- less than 0: the clock was set back
  grows_1 = behind == 0
  if behind ~= 0 then
    local old = counts_1
    counts_1 = {}
    for i = 2, n_1 + 2 do
      local place = i - behind
      counts_1[i] = place >= 2 and place <= n_1 + 2 and old[place] or 0
    end
  end
  local newest
  for i = 2, n_1 + 1 do
    local count = counts_1[i]
    if count > 0 then
      whole, newest = whole + count, newest or i
    end
  end
  part_1 = counts_1[n_1 + 2]
  if part_1 > 0 then newest = newest or n_1 + 2 end
  if newest then reset_1 = start_1 + size_1 * (n_1 + 3 - newest) - now end
end

--- weigh
-- In units * steps all numbers are whole. A step is so many us that doubles hold
-- them.
local limit, step, off = ARGV[3] + 0, 1, now - start_1
while limit * steps_1 > 2^52 do
  step = step + step
  steps_1 = (size_1 + -size_1 % step) / step
end
free_1 = (limit - whole) * steps_1 - part_1 * (steps_1 - (off - off % step) / step)
if free_1 < cost * steps_1 then retry_1 = -1 end
local room, wait = limit - cost

--- wait one
-- Of the previous window enough must leave, or all of it and enough of this one.
if retry_1 < 0 and room >= 0 then
  if room >= whole then
    room, wait = room - whole, 0
  else
    part_1, wait = whole, size_1
  end
end

--- wait several
-- Enough must leave of the oldest sub-window without which all newer ones fit.
if retry_1 < 0 and room >= 0 then
  local i = 2
  while i < n_1 + 2 and room >= counts_1[i] do
    room, i = room - counts_1[i], i + 1
  end
  part_1, wait = counts_1[i], size_1 * (n_1 + 2 - i)
end

--- retry
if wait then
  local stay = room * steps_1 / part_1
  local leave = (steps_1 - (stay - stay % 1)) * step
  retry_1 = wait + (leave < size_1 and leave or size_1) - off
end

--- charge one
local stop = start_1 + size_1 + size_1
free_1 = free_1 - cost * steps_1
remaining_1, reset_1 = (free_1 - free_1 % steps_1) / steps_1, stop - now
if grows_1 then
  call('SETRANGE', KEYS[1], 8, struct.pack('<I4', here_1 + cost))
else
  local state = struct.pack('<dI4I4', start_1, here_1 + cost, part_1)
  call('SET', KEYS[1], state, 'PXAT', string.format('%d', (stop + 999) / 1000))
end

--- charge several
local stop = start_1 + size_1 * (n_1 + 1)
free_1 = free_1 - cost * steps_1
remaining_1, reset_1 = (free_1 - free_1 % steps_1) / steps_1, stop - now
if grows_1 then
  call('SETRANGE', KEYS[1], 8, struct.pack('<I4', counts_1[2] + cost))
else
  counts_1[1], counts_1[2] = start_1, (counts_1[2] or 0) + cost
  for i = 3, n_1 + 2 do counts_1[i] = counts_1[i] or 0 end
  local state = struct.pack('<d' .. string.rep('I4', n_1 + 1), unpack(counts_1, 1, n_1 + 2))
  call('SET', KEYS[1], state, 'PXAT', string.format('%d', (stop + 999) / 1000))
end

--- report
if free_1 > 0 then remaining_1 = (free_1 - free_1 % steps_1) / steps_1 end

--- refund
local stored, from = call('GET', KEYS[1]), charged - charged % size_1
if stored and #stored == 4 * n_1 + 12 and start_1 - from <= size_1 * n_1 then
  local layout = '<d' .. string.rep('I4', n_1 + 1)
  local old, counts, newest = {struct.unpack(layout, stored)}, {}, 2
  local place = 2 + (old[1] - from) / size_1
  if place >= 2 and place <= n_1 + 2 and old[place] then
    old[place] = old[place] > cost and old[place] - cost or 0
    while old[newest] == 0 and newest < n_1 + 2 do newest = newest + 1 end
    if old[newest] > 0 then
      for i = 0, n_1 do counts[i + 1] = newest + i <= n_1 + 2 and old[newest + i] or 0 end
      local start = old[1] - size_1 * (newest - 2)
      local stop = string.format('%d', (start + size_1 * (n_1 + 1) + 999) / 1000)
      call('SET', KEYS[1], struct.pack(layout, start, unpack(counts)), 'PXAT', stop)
    else
      call('DEL', KEYS[1])
    end
  end
end
