-- Sliding window counter: a count for each of the N sub-windows of a window. The
-- window that ends now holds N of them whole, the current one as far as it has
-- come; of the one before them only the part that has not left yet, and its units
-- are taken to be spread evenly.
--
-- KEYS[1]  the limit's key
-- ARGV[1]  cost, in units; in a refund what is given back, or below 0 owed
-- ARGV[2]  limit, units in a window
-- ARGV[3]  size of a sub-window, us
-- ARGV[4]  N, for more than one sub-window
-- Reply    remaining (units), reset_after (us), retry_after (us; 0 admitted,
--          -1 never), reset_after without this charge (us)
-- State    STRING: start of the newest sub-window (us since the Unix epoch, a
--          little-endian double), then the counts of it and of the N before it,
--          newest first, 32 bits each. Garbage counts as no key.
-- TTL      until the last sub-window with a count has left the window
--
-- `now` is Redis' time in us. here_1 is the current sub-window's count, part_1 that
-- of the one partly outside, both as of now; with several sub-windows counts_1 is
-- the counts of all, as they are stored. What sub-windows of the future hold, made
-- before the clock was set back, came now, and is written so by whatever call sees
-- it.
--
-- compose.go makes scripts of the sections below: _1 and [1] stand for the limit's
-- place in its plan, and its arguments follow those of the limits before it.

--- locals one
local cost_1, size_1 = ARGV[1] + 0, ARGV[3] + 0
local start_1, here_1, part_1, grows_1 = now - now % size_1, 0, 0
local remaining_1, reset_1, retry_1, before_1 = 0, 0, 0, 0

--- locals several
local cost_1, size_1, n_1 = ARGV[1] + 0, ARGV[3] + 0, ARGV[4] + 0
local start_1, here_1, counts_1, grows_1 = now - now % size_1, 0
local remaining_1, reset_1, retry_1, before_1 = 0, 0, 0, 0

--- load one
local stored = call('GET', KEYS[1])
if stored and #stored == 16 then
  local newest, count, before = struct.unpack('<dI4I4', stored)
  if newest > start_1 and newest < 2^53 and newest % size_1 == 0 then -- the clock was set back
    newest, count, before = start_1, math.min(count + before, 4294967295), 0
    local stop = math.ceil((start_1 + size_1 + size_1) / 1000)
    call('SET', KEYS[1], struct.pack('<dI4I4', newest, count, 0), 'PXAT', string.format('%d', stop))
  end
  if newest == start_1 then
    here_1, part_1, grows_1 = count, before, true
  elseif newest == start_1 - size_1 then
    part_1 = count
  end
end

--- load several
local stored, units = call('GET', KEYS[1])
if stored and #stored == 4 * n_1 + 12 then
  local layout, newest = '<' .. string.rep('I4', n_1 + 1), struct.unpack('<d', stored)
  if newest > start_1 and newest < 2^53 and newest % size_1 == 0 then -- the clock was set back
    units = {struct.unpack(layout, stored, 9)}
    local ahead, count = (newest - start_1) / size_1, 0
    for i = 1, math.min(ahead, n_1) + 1 do count = count + units[i] end
    stored = struct.pack('<dI4', start_1, math.min(count, 4294967295))
      .. string.sub(stored, 13 + 4 * ahead) .. string.rep('\0', 4 * math.min(ahead, n_1))
    newest = start_1
    local stop = math.ceil((start_1 + size_1 * (n_1 + 1)) / 1000)
    call('SET', KEYS[1], stored, 'PXAT', string.format('%d', stop))
  end
  local behind = (start_1 - newest) / size_1
  if behind % 1 == 0 and behind >= 0 and behind <= n_1 then
    grows_1 = behind == 0
    counts_1 = string.rep('\0', 4 * behind) .. string.sub(stored, 9, 4 * (n_1 - behind) + 12)
    units = {struct.unpack(layout, counts_1)}
  end
end

--- count one
if here_1 > 0 then
  before_1 = start_1 + size_1 + size_1 - now
elseif part_1 > 0 then
  before_1 = start_1 + size_1 - now
end
local whole = here_1

--- count several
local whole, part_1 = 0, 0
if counts_1 then
  local newest
  for i = 1, n_1 do
    local count = units[i]
    if count > 0 then
      whole, newest = whole + count, newest or i
    end
  end
  here_1, part_1 = units[1], units[n_1 + 1]
  if part_1 > 0 then newest = newest or n_1 + 1 end
  if newest then before_1 = start_1 + size_1 * (n_1 + 2 - newest) - now end
end

--- weigh
-- In units * steps all numbers are whole. A step is so many us that doubles hold
-- them.
local limit, steps, step, off = ARGV[2] + 0.0, size_1, 1, now - start_1
while limit * steps > 2^52 do
  step = step + step
  steps = math.ceil(size_1 / step)
end
local free = (limit - whole) * steps - part_1 * (steps - math.floor(off / step))
if free > 0 then remaining_1 = math.floor(free / steps) end
reset_1 = before_1
local room, leaving, wait = limit - cost_1
if cost_1 > remaining_1 then retry_1 = -1 end

--- wait one
-- Of the previous window enough must leave, or all of it and enough of this one.
if retry_1 < 0 and room >= 0 then
  if room >= here_1 then
    room, leaving, wait = room - here_1, part_1, 0
  else
    leaving, wait = here_1, size_1
  end
end

--- wait several
-- Enough must leave of the oldest sub-window without which all newer ones fit.
if retry_1 < 0 and room >= 0 then
  local i = 1
  while i <= n_1 and room >= units[i] do
    room, i = room - units[i], i + 1
  end
  leaving, wait = units[i], size_1 * (n_1 + 1 - i)
end

--- retry
if wait then
  local leave = (steps - math.floor(room * steps / leaving)) * step
  retry_1 = wait + (leave < size_1 and leave or size_1) - off
end

--- charge one
local stop = start_1 + size_1 + size_1
remaining_1, reset_1 = remaining_1 - cost_1, stop - now
if grows_1 then
  call('SETRANGE', KEYS[1], 8, struct.pack('<I4', here_1 + cost_1))
else
  local state = struct.pack('<dI4I4', start_1, here_1 + cost_1, part_1)
  call('SET', KEYS[1], state, 'PXAT', string.format('%d', math.ceil(stop / 1000)))
end

--- charge several
local stop = start_1 + size_1 * (n_1 + 1)
remaining_1, reset_1 = remaining_1 - cost_1, stop - now
if grows_1 then
  call('SETRANGE', KEYS[1], 8, struct.pack('<I4', here_1 + cost_1))
else
  local older = counts_1 and string.sub(counts_1, 5) or string.rep('\0', 4 * n_1)
  local state = struct.pack('<dI4', start_1, here_1 + cost_1) .. older
  call('SET', KEYS[1], state, 'PXAT', string.format('%d', math.ceil(stop / 1000)))
end

--- parts one
local n = 1

--- parts several
local n = n_1

--- refund
local stored, from = call('GET', KEYS[1]), charged - charged % size_1
if stored and #stored == 4 * n + 12 and start_1 - from <= size_1 * n then
  local newest = struct.unpack('<d', stored)
  local age = (newest - from) / size_1
  if age % 1 == 0 and age >= 0 and age <= n then
    local count = struct.unpack('<I4', stored, 9 + 4 * age)
    count = struct.pack('<I4', count > cost_1 and count - cost_1 or 0)
    local counts = string.sub(stored, 9, 8 + 4 * age) .. count .. string.sub(stored, 13 + 4 * age)
    local empty = 0
    while string.sub(counts, 4 * empty + 1, 4 * empty + 4) == '\0\0\0\0' do empty = empty + 1 end
    if empty <= n then
      newest = newest - size_1 * empty
      local state = struct.pack('<d', newest) .. string.sub(counts, 4 * empty + 1) .. string.rep('\0', 4 * empty)
      local stop = math.ceil((newest + size_1 * (n + 1)) / 1000)
      call('SET', KEYS[1], state, 'PXAT', string.format('%d', stop))
    else
      call('DEL', KEYS[1])
    end
  end
end

--- counts one
local counts = struct.pack('<I4I4', here_1, part_1)

--- counts several
local counts = counts_1 or string.rep('\0', 4 * n + 4)

--- debit
-- What is owed belongs to the sub-window of the charge.
local limit, steps, step = ARGV[2] + 0.0, size_1, 1
while limit * steps > 2^52 do
  step = step + step
  steps = math.ceil(size_1 / step)
end
local free = (2 * limit - whole) * steps - part_1 * (steps - math.floor((now - start_1) / step))
local owed = math.min(-cost_1, math.floor(free / steps))
local age = charged < now and (start_1 - (charged - charged % size_1)) / size_1 or 0
if owed > 0 and age <= n then
  local count = math.min(struct.unpack('<I4', counts, 1 + 4 * age) + owed, 4294967295)
  counts = string.sub(counts, 1, 4 * age) .. struct.pack('<I4', count) .. string.sub(counts, 5 + 4 * age)
  local empty = 0
  while string.sub(counts, 4 * empty + 1, 4 * empty + 4) == '\0\0\0\0' do empty = empty + 1 end
  local newest = start_1 - size_1 * empty
  local state = struct.pack('<d', newest) .. string.sub(counts, 4 * empty + 1) .. string.rep('\0', 4 * empty)
  call('SET', KEYS[1], state, 'PXAT', string.format('%d', math.ceil((newest + size_1 * (n + 1)) / 1000)))
end
