local call, try, KEYS, ARGV = redis.call, redis.pcall, KEYS, ARGV
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local charged = ARGV[4] + 0
local last = 4
repeat
  local cost_1 = ARGV[1] + 0
  if cost_1 > 0 then
    local size, key, cost = ARGV[3] + 0, KEYS[1], cost_1
    local start = now - now % size
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
      if stored.err and not string.find(stored.err, 'WRONGTYPE', 1, true) then return stored end
      call('DEL', key)
    end
    local n = 1
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
    local size, key, cost, limit = ARGV[3] + 0, KEYS[1], cost_1, ARGV[2] + 0
    local start = now - now % size
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
      if stored.err and not string.find(stored.err, 'WRONGTYPE', 1, true) then return stored end
      call('DEL', key)
    end
    local whole, before = here, 0
    if here > 0 then
      before = start + size + size - now
    elseif part > 0 then
      before = start + size - now
    end
    local n = 1
    local counts = struct.pack('<I4I4', here, part)
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
