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
-- `now` is Redis' time in us. here is the current sub-window's count, part that
-- of the one partly outside, both as of now; with several sub-windows counts is
-- the counts of all, as they are stored. What sub-windows of the future hold, made
-- before the clock was set back, came now, and is written so by whatever call sees
-- it.
--
-- x - x % 1000 is x rounded down, and x + -x % 1000 up, for less than a call of math.floor
-- costs. What a script answers goes through math.floor all the same: Lua 5.4 makes an integer
-- of it.
--
-- compose.go makes scripts of the functions below: see there how it binds what they
-- take, and keeps what they return.

local function begin(size)
  local start = now - now % size
  return start
end

local function begin_several(size, n)
  local start = now - now % size
  n = n + 0
  return start, n
end

local function read_one(key, size, start)
  local here, part, grows, stored = 0, 0, false, try('GET', key)
  if stored and #stored == 16 then
    local newest, count, older = struct.unpack('<dI4I4', stored)
    if newest > start and newest < 2^53 and newest % size == 0 then -- the clock was set back
      newest, count, older = start, math.min(count + older, 4294967295), 0
      local stop = math.ceil((start + size + size) / 1000)
      call('SET', key, struct.pack('<dI4I4', newest, count, 0), 'PXAT', string.format('%d', stop))
    end
    if newest == start then
      here, part, grows = count, older, true
    elseif newest == start - size then
      part = count
    end
  elseif stored then
    foreign(key, stored)
  end
  return here, part, grows
end

local function read_several(key, size, n, start)
  local counts, units, grows
  local stored = try('GET', key)
  if stored and #stored == 4 * n + 12 then
    local layout, newest = '<' .. string.rep('I4', n + 1), struct.unpack('<d', stored)
    if newest > start and newest < 2^53 and newest % size == 0 then -- the clock was set back
      units = {struct.unpack(layout, stored, 9)}
      local ahead, count = (newest - start) / size, 0
      for i = 1, math.min(ahead, n) + 1 do count = count + units[i] end
      stored = struct.pack('<dI4', start, math.min(count, 4294967295))
        .. string.sub(stored, 13 + 4 * ahead) .. string.rep('\0', 4 * math.min(ahead, n))
      newest = start
      local stop = math.ceil((start + size * (n + 1)) / 1000)
      call('SET', key, stored, 'PXAT', string.format('%d', stop))
    end
    local behind = (start - newest) / size
    if behind % 1 == 0 and behind >= 0 and behind <= n then
      grows = behind == 0
      counts = string.rep('\0', 4 * behind) .. string.sub(stored, 9, 4 * (n - behind) + 12)
      units = {struct.unpack(layout, counts)}
    end
  elseif stored then
    foreign(key, stored)
  end
  return counts, units, grows
end

local function count_one(size, start, here, part)
  local whole, before = here, 0
  if here > 0 then
    before = start + size + size - now
  elseif part > 0 then
    before = start + size - now
  end
  return whole, before
end

local function count_several(size, n, start, counts, units)
  local whole, here, part, before = 0, 0, 0, 0
  if counts then
    local newest
    for i = 1, n do
      local count = units[i]
      if count > 0 then
        whole, newest = whole + count, newest or i
      end
    end
    here, part = units[1], units[n + 1]
    if part > 0 then newest = newest or n + 1 end
    if newest then before = start + size * (n + 2 - newest) - now end
  end
  return whole, here, part, before
end

local function weigh(cost, limit, size, start, whole, part, before)
  -- In units * steps all numbers are whole. A step is so many us that doubles hold
  -- them.
  local most, steps, step, off = limit + 0.0, size, 1, now - start
  while most * steps > 2^52 do
    step = step + step
    steps = math.ceil(size / step)
  end
  local remaining, reset, retry = 0, before, 0
  local free = (most - whole) * steps - part * (steps - (off - off % step) / step)
  if free > 0 then remaining = math.floor(free / steps) end
  local room, leaving, wait = most - cost
  if cost > remaining then retry = -1 end
  return steps, step, off, remaining, reset, retry, room, leaving, wait
end

local function wait_one(size, here, part, retry, room, leaving, wait)
  -- Of the previous window enough must leave, or all of it and enough of this one.
  if retry < 0 and room >= 0 then
    if room >= here then
      room, leaving, wait = room - here, part, 0
    else
      leaving, wait = here, size
    end
  end
  return room, leaving, wait
end

local function wait_several(size, n, units, retry, room, leaving, wait)
  -- Enough must leave of the oldest sub-window without which all newer ones fit.
  if retry < 0 and room >= 0 then
    local i = 1
    while i <= n and room >= units[i] do
      room, i = room - units[i], i + 1
    end
    leaving, wait = units[i], size * (n + 1 - i)
  end
  return room, leaving, wait
end

local function again(size, steps, step, off, retry, room, leaving, wait)
  if wait then
    local leave = (steps - math.floor(room * steps / leaving)) * step
    retry = wait + (leave < size and leave or size) - off
  end
  return retry
end

local function charge_one(key, cost, size, here, part, grows, remaining)
  local start = now - now % size
  local stop = start + size + size
  remaining = remaining - cost
  local reset = stop - now
  if grows then
    call('SETRANGE', key, 8, struct.pack('<I4', here + cost))
  else
    local state = struct.pack('<dI4I4', start, here + cost, part)
    call('SET', key, state, 'PXAT', string.format('%d', (stop + -stop % 1000) / 1000))
  end
  return remaining, reset
end

local function charge_several(key, cost, size, n, here, counts, grows, remaining)
  local start = now - now % size
  local stop = start + size * (n + 1)
  remaining = remaining - cost
  local reset = stop - now
  if grows then
    call('SETRANGE', key, 8, struct.pack('<I4', here + cost))
  else
    local older = counts and string.sub(counts, 5) or string.rep('\0', 4 * n)
    local state = struct.pack('<dI4', start, here + cost) .. older
    call('SET', key, state, 'PXAT', string.format('%d', (stop + -stop % 1000) / 1000))
  end
  return remaining, reset
end

local function parts_one()
  local n = 1
  return n
end

local function refund(key, cost, size, n)
  local state, from = call('GET', key), charged - charged % size
  if state and #state == 4 * n + 12 and now - now % size - from <= size * n then
    local newest = struct.unpack('<d', state)
    local age = (newest - from) / size
    if age % 1 == 0 and age >= 0 and age <= n then
      local count = struct.unpack('<I4', state, 9 + 4 * age)
      count = struct.pack('<I4', count > cost and count - cost or 0)
      local counts = string.sub(state, 9, 8 + 4 * age) .. count .. string.sub(state, 13 + 4 * age)
      local empty = 0
      while string.sub(counts, 4 * empty + 1, 4 * empty + 4) == '\0\0\0\0' do empty = empty + 1 end
      if empty <= n then
        newest = newest - size * empty
        state = struct.pack('<d', newest) .. string.sub(counts, 4 * empty + 1) .. string.rep('\0', 4 * empty)
        local stop = math.ceil((newest + size * (n + 1)) / 1000)
        call('SET', key, state, 'PXAT', string.format('%d', stop))
      else
        call('DEL', key)
      end
    end
  end
end

local function counts_one(here, part)
  local counts = struct.pack('<I4I4', here, part)
  return counts
end

local function counts_several(n, counts)
  counts = counts or string.rep('\0', 4 * n + 4)
  return counts
end

local function debit(key, cost, limit, size, n, start, whole, part, counts)
  -- What is owed belongs to the sub-window of the charge.
  local most, steps, step = limit + 0.0, size, 1
  while most * steps > 2^52 do
    step = step + step
    steps = math.ceil(size / step)
  end
  local free = (2 * most - whole) * steps - part * (steps - math.floor((now - start) / step))
  local owed = math.min(-cost, math.floor(free / steps))
  local age = charged < now and (start - (charged - charged % size)) / size or 0
  if owed > 0 and age <= n then
    local count = math.min(struct.unpack('<I4', counts, 1 + 4 * age) + owed, 4294967295)
    counts = string.sub(counts, 1, 4 * age) .. struct.pack('<I4', count) .. string.sub(counts, 5 + 4 * age)
    local empty = 0
    while string.sub(counts, 4 * empty + 1, 4 * empty + 4) == '\0\0\0\0' do empty = empty + 1 end
    local newest = start - size * empty
    local state = struct.pack('<d', newest) .. string.sub(counts, 4 * empty + 1) .. string.rep('\0', 4 * empty)
    call('SET', key, state, 'PXAT', string.format('%d', math.ceil((newest + size * (n + 1)) / 1000)))
  end
end
