local call, try, KEYS, ARGV = redis.call, redis.pcall, KEYS, ARGV
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local charged = ARGV[5] + 0
local last = 5
repeat
  local cost_1 = ARGV[1] + 0
  if cost_1 > 0 then
    local window, key, limit, cost, capacity = ARGV[3] + 0, KEYS[1], ARGV[2] + 0, cost_1, ARGV[4] + 0
    local start = now - now % window
    local missing, owed, at, stored = 0, 0, start, try('GET', key)
    if stored and #stored == 24 then
      missing, owed, at = struct.unpack('<ddd', stored)
      if missing > 0 and missing < 2^53 and owed >= 0 and owed <= missing then
        if at > start then -- the clock was set back
          at = start
          local stop = start + math.min(math.ceil(missing / math.max(limit, 1)) * window, 2^52)
          local state = struct.pack('<ddd', missing, owed, at)
          call('SET', key, state, 'PXAT', string.format('%d', math.floor(stop / 1000)))
        end
      else
        missing, at = 0, start
      end
    elseif stored then
      if stored.err and not string.find(stored.err, 'WRONGTYPE', 1, true) then return stored end
      call('DEL', key)
    end
    local brought = math.floor((start - at) / window) * limit
    if missing > brought and charged >= start + window - math.ceil(capacity / limit) * window then
      missing, owed = missing - cost, math.max(owed - cost, 0)
      if missing > brought then
        call('SET', key, struct.pack('<ddd', missing, owed, at), 'KEEPTTL')
      else
        call('DEL', key)
      end
    end
  end
  if cost_1 < 0 then
    local window, key, limit, cost, capacity = ARGV[3] + 0, KEYS[1], ARGV[2] + 0, cost_1, ARGV[4] + 0
    local start = now - now % window
    local missing, owed, at, stored = 0, 0, start, try('GET', key)
    if stored and #stored == 24 then
      missing, owed, at = struct.unpack('<ddd', stored)
      if missing > 0 and missing < 2^53 and owed >= 0 and owed <= missing then
        if at > start then -- the clock was set back
          at = start
          local stop = start + math.min(math.ceil(missing / math.max(limit, 1)) * window, 2^52)
          local state = struct.pack('<ddd', missing, owed, at)
          call('SET', key, state, 'PXAT', string.format('%d', math.floor(stop / 1000)))
        end
      else
        missing, at = 0, start
      end
    elseif stored then
      if stored.err and not string.find(stored.err, 'WRONGTYPE', 1, true) then return stored end
      call('DEL', key)
    end
    local brought = math.floor((start - at) / window) * limit
    local used, debt, owes = 0, 0, math.min(-cost, 2 * capacity)
    if missing > brought then used, debt = missing - brought, math.max(owed - brought, 0) end
    if used == 0 and charged < start then
      owes = owes - math.ceil((start - charged) / window) * limit
    end
    local free = math.max(capacity + debt - used, 0)
    owes = math.min(owes, capacity - debt + free)
    if owes > 0 then
      used, debt = used + owes, debt + math.max(owes - free, 0)
      local stop = start + math.min(math.ceil(used / limit) * window, 2^52)
      local state = struct.pack('<ddd', used, debt, start)
      call('SET', key, state, 'PXAT', string.format('%d', math.floor(stop / 1000)))
    end
  end
  charged = ARGV[last + 2]
  if charged then
    ARGV[1], charged, last = ARGV[last + 1], charged + 0, last + 2
  end
until not charged
return 0
