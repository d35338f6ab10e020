local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local charged = ARGV[5] + 0
local last = 5
repeat
  local cost_1, size_1, n_1 = ARGV[1] + 0, ARGV[3] + 0, ARGV[4] + 0
  local start_1, here_1, counts_1, grows_1 = now - now % size_1, 0
  local remaining_1, reset_1, retry_1, before_1 = 0, 0, 0, 0
  if cost_1 > 0 then
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
    local n = n_1
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
  end
  if cost_1 < 0 then
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
    local n = n_1
    local counts = counts_1 or string.rep('\0', 4 * n + 4)
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
  end
  charged = ARGV[last + 2]
  if charged then
    ARGV[1], charged, last = ARGV[last + 1], charged + 0, last + 2
  end
until not charged
return 0
