local call, try, KEYS, ARGV = redis.call, redis.pcall, KEYS, ARGV
local math, string, struct = math, string, struct
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local start_2, stop_2
do
  local first, second, third, last = ARGV[6], ARGV[7], ARGV[8], ARGV[9]
  local start, stop = second + 0, third + 0
  if now < start then
    start, stop = first + 0, start
  elseif now >= stop then
    start, stop = stop, last + 0
  end
  if now < start or now >= stop then start, stop = 0, 0 end
  start_2, stop_2 = start, stop
end
local charged = ARGV[10] + 0
local last = 10
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
  local cost_2 = ARGV[4] + 0
  if cost_2 > 0 then
    local start, key, cost, units, stop = start_2, KEYS[2], cost_2, ARGV[4], stop_2
    local base = start / 60000000 % 2^22 * 2^31
    local used, stored = 0, try('GET', key)
    local number = tonumber(stored)
    if number then
      local count = number % 2147483648
      if number - count == base then
        used = count
      elseif #stored > 16 then
        number = nil
        if stored.err and not string.find(stored.err, 'WRONGTYPE', 1, true) then return stored end
        call('DEL', key)
      end
    elseif stored then
      if stored.err and not string.find(stored.err, 'WRONGTYPE', 1, true) then return stored end
      call('DEL', key)
    end
    if used > 0 and charged >= start and charged < stop then
      if used <= cost then
        call('DEL', key)
      elseif type(try('DECRBY', key, units)) == 'table' then
        call('SET', key, string.format('%d', base + used - cost), 'KEEPTTL')
      end
    end
  end
  if cost_2 < 0 then
    local start, key, cost, limit, stop = start_2, KEYS[2], cost_2, ARGV[5] + 0, stop_2
    local base = start / 60000000 % 2^22 * 2^31
    local used, stored = 0, try('GET', key)
    local number = tonumber(stored)
    if number then
      local count = number % 2147483648
      if number - count == base then
        used = count
      elseif #stored > 16 then
        number = nil
        if stored.err and not string.find(stored.err, 'WRONGTYPE', 1, true) then return stored end
        call('DEL', key)
      end
    elseif stored then
      if stored.err and not string.find(stored.err, 'WRONGTYPE', 1, true) then return stored end
      call('DEL', key)
    end
    local owed = math.min(-cost, 2 * limit - used)
    local own = not number or number - number % 2147483648 == base
    if owed > 0 and own and charged >= start and charged < stop then
      local units = string.format('%d', owed)
      if used == 0 or type(try('INCRBY', key, units)) == 'table' then
        local state = string.format('%d', base + used + owed)
        call('SET', key, state, 'PXAT', string.format('%d', stop / 1000))
      end
    end
  end
  charged = ARGV[last + 3]
  if charged then
    ARGV[1], ARGV[4], charged, last = ARGV[last + 1], ARGV[last + 2], charged + 0, last + 3
  end
until not charged
return 0
