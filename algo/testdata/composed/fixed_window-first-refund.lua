local call, try, KEYS, ARGV = redis.call, redis.pcall, KEYS, ARGV
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local charged = ARGV[4] + 0
local last = 4
repeat
  local cost_1 = ARGV[1] + 0
  if cost_1 > 0 then
    local key, window, cost = KEYS[1], ARGV[3] + 0, cost_1
    local start, used, stored = now, 0, try('GET', key)
    if stored and #stored == 12 then
      local begin, count = struct.unpack('<dI4', stored)
      if count > 0 and begin < 2^53 and now - begin < window then
        if begin > now then -- the clock was set back
          begin = now
          local state = struct.pack('<dI4', begin, count)
          call('SET', key, state, 'PXAT', string.format('%d', math.ceil((now + window) / 1000)))
        end
        start, used = math.floor(begin), math.floor(count)
      end
    elseif stored then
      if stored.err and not string.find(stored.err, 'WRONGTYPE', 1, true) then return stored end
      call('DEL', key)
    end
    local stop = start + window
    if used > 0 and charged >= start and charged < stop then
      if used > cost then
        call('SET', key, struct.pack('<dI4', start, used - cost), 'KEEPTTL')
      else
        call('DEL', key)
      end
    end
  end
  if cost_1 < 0 then
    local key, window, cost, limit = KEYS[1], ARGV[3] + 0, cost_1, ARGV[2] + 0
    local start, used, stored = now, 0, try('GET', key)
    if stored and #stored == 12 then
      local begin, count = struct.unpack('<dI4', stored)
      if count > 0 and begin < 2^53 and now - begin < window then
        if begin > now then -- the clock was set back
          begin = now
          local state = struct.pack('<dI4', begin, count)
          call('SET', key, state, 'PXAT', string.format('%d', math.ceil((now + window) / 1000)))
        end
        start, used = math.floor(begin), math.floor(count)
      end
    elseif stored then
      if stored.err and not string.find(stored.err, 'WRONGTYPE', 1, true) then return stored end
      call('DEL', key)
    end
    local stop = start + window
    local owed, at = math.min(-cost, 2 * limit - used), math.min(charged, now)
    if owed > 0 and used == 0 and now - at < window then
      local state = struct.pack('<dI4', at, owed)
      call('SET', key, state, 'PXAT', string.format('%d', math.ceil((at + window) / 1000)))
    elseif owed > 0 and used > 0 and at >= start then
      call('SET', key, struct.pack('<dI4', start, used + owed), 'KEEPTTL')
    end
  end
  charged = ARGV[last + 2]
  if charged then
    ARGV[1], charged, last = ARGV[last + 1], charged + 0, last + 2
  end
until not charged
return 0
