local call, try, KEYS, ARGV = redis.call, redis.pcall, KEYS, ARGV
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local charged = ARGV[5] + 0
local last = 5
repeat
  local cost_1 = ARGV[1] + 0
  if cost_1 > 0 then
    local key, cost, tolerance = KEYS[1], cost_1, ARGV[3] + 0
    local size, rate, at, debt, stored = 0, 0, now, 0, try('GET', key)
    if stored and (#stored == 24 or #stored == 32 or #stored == 48) then
      size, rate, at = struct.unpack('<ddd', stored)
      if size > 0 and size < 2^53 and rate > 0 then
        if #stored == 32 then debt = struct.unpack('<d', stored, 25) end
        if at > now then -- the clock was set back
          at = now
          local state = struct.pack('<ddd', size, rate, at) .. string.sub(stored, 25)
          call('SET', key, state, 'PXAT', string.format('%d', math.ceil((now + math.ceil(size)) / 1000)))
        end
      else
        size, at = 0, now
      end
    elseif stored then
      if stored.err and not string.find(stored.err, 'WRONGTYPE', 1, true) then return stored end
      call('DEL', key)
    end
    if size > now - at and now - charged < tolerance then
      size, debt = size - cost * rate, debt - cost * rate
      if size > now - at then
        local state = struct.pack('<ddd', size, rate, at)
        if debt > 0 then state = state .. struct.pack('<d', debt) end
        call('SET', key, state, 'PXAT', string.format('%d', math.ceil((at + math.ceil(size)) / 1000)))
      else
        call('DEL', key)
      end
    end
  end
  charged = ARGV[last + 2]
  if charged then
    ARGV[1], charged, last = ARGV[last + 1], charged + 0, last + 2
  end
until not charged
return 0
