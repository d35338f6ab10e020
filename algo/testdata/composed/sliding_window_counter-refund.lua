local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local charged = ARGV[4] + 0
local last = 4
repeat
  local cost_1, size_1 = ARGV[1] + 0, ARGV[3] + 0
  local start_1, here_1, part_1, grows_1 = now - now % size_1, 0, 0
  local remaining_1, reset_1, retry_1, before_1 = 0, 0, 0, 0
  if cost_1 > 0 then
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
    local n = 1
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
    if here_1 > 0 then
      before_1 = start_1 + size_1 + size_1 - now
    elseif part_1 > 0 then
      before_1 = start_1 + size_1 - now
    end
    local whole = here_1
    local n = 1
    local counts = struct.pack('<I4I4', here_1, part_1)
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
