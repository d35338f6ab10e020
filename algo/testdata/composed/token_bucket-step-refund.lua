local call, try, KEYS, ARGV = redis.call, redis.pcall, KEYS, ARGV
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local charged = ARGV[5] + 0
local last = 5
repeat
  local cost_1 = ARGV[1] + 0
  if cost_1 > 0 then
    local window, key, limit, capacity, cost = ARGV[3] + 0, KEYS[1], ARGV[2] + 0, ARGV[4] + 0, cost_1
    local start = now - now % window
    local used, stored = 0, try('GET', key)
    if stored and #stored == 24 then
      local units, owed, at = struct.unpack('<ddd', stored)
      if units > 0 and units < 2^53 and owed >= 0 and owed <= units then
        local missing = units
        if missing > capacity then
          missing = math.min(missing - owed, capacity) + math.min(owed, capacity)
        end
        if at > start then -- the clock was set back
          at = start
          local stop = start + math.max(math.ceil(missing / math.max(limit, 1)), 1) * window
          local state = struct.pack('<ddd', units, owed, at)
          call('SET', key, state, 'PXAT', string.format('%d', stop / 1000))
        end
        missing = math.ceil(missing - math.floor((start - at) / window) * limit)
        if missing > 0 then used = missing end
      end
    elseif stored then
      if stored.err and not string.find(stored.err, 'WRONGTYPE', 1, true) then return stored end
      call('DEL', key)
    end
    if used > 0 and charged >= start + window - math.ceil(capacity / limit) * window then
      used = used - cost
      if used > 0 then
        local stop = start + math.ceil(used / limit) * window
        local state = struct.pack('<ddd', used, math.max(used - capacity, 0), start)
        call('SET', key, state, 'PXAT', string.format('%d', stop / 1000))
      else
        call('DEL', key)
      end
    end
  end
  if cost_1 < 0 then
    local window, key, limit, capacity, cost = ARGV[3] + 0, KEYS[1], ARGV[2] + 0, ARGV[4] + 0, cost_1
    local start = now - now % window
    local used, stored = 0, try('GET', key)
    if stored and #stored == 24 then
      local units, owed, at = struct.unpack('<ddd', stored)
      if units > 0 and units < 2^53 and owed >= 0 and owed <= units then
        local missing = units
        if missing > capacity then
          missing = math.min(missing - owed, capacity) + math.min(owed, capacity)
        end
        if at > start then -- the clock was set back
          at = start
          local stop = start + math.max(math.ceil(missing / math.max(limit, 1)), 1) * window
          local state = struct.pack('<ddd', units, owed, at)
          call('SET', key, state, 'PXAT', string.format('%d', stop / 1000))
        end
        missing = math.ceil(missing - math.floor((start - at) / window) * limit)
        if missing > 0 then used = missing end
      end
    elseif stored then
      if stored.err and not string.find(stored.err, 'WRONGTYPE', 1, true) then return stored end
      call('DEL', key)
    end
    local owed = math.min(-cost, 2 * capacity)
    if used == 0 and charged < start then owed = owed - math.ceil((start - charged) / window) * limit end
    owed = math.min(owed, 2 * capacity - used)
    if owed > 0 then
      used = used + owed
      local stop = start + math.ceil(used / limit) * window
      local state = struct.pack('<ddd', used, math.max(used - capacity, 0), start)
      call('SET', key, state, 'PXAT', string.format('%d', stop / 1000))
    end
  end
  charged = ARGV[last + 2]
  if charged then
    ARGV[1], charged, last = ARGV[last + 1], charged + 0, last + 2
  end
until not charged
return 0
