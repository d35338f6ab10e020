local call, try, KEYS, ARGV = redis.call, redis.pcall, KEYS, ARGV
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local charged = ARGV[5] + 0
local last = 5
repeat
  local cost_1 = ARGV[1] + 0
  if cost_1 > 0 then
    local size, n, key, cost = ARGV[3] + 0, ARGV[4], KEYS[1], cost_1
    local start = now - now % size
    n = n + 0
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
      if stored.err and not string.find(stored.err, 'WRONGTYPE', 1, true) then return stored end
      call('DEL', key)
    end
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
  if cost_1 < 0 then
    local size, n, key, cost, limit = ARGV[3] + 0, ARGV[4], KEYS[1], cost_1, ARGV[2] + 0
    local start = now - now % size
    n = n + 0
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
      if stored.err and not string.find(stored.err, 'WRONGTYPE', 1, true) then return stored end
      call('DEL', key)
    end
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
    counts = counts or string.rep('\0', 4 * n + 4)
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
  charged = ARGV[last + 2]
  if charged then
    ARGV[1], charged, last = ARGV[last + 1], charged + 0, last + 2
  end
until not charged
return 0
