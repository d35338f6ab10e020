local call, try, KEYS, ARGV = redis.call, redis.pcall, KEYS, ARGV
local math, string, struct = math, string, struct
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local charged = ARGV[7] + 0
local last = 7
repeat
  local cost_1 = ARGV[1] + 0
  if cost_1 > 0 then
    local key, interval, tolerance, cost = KEYS[1], ARGV[2] + 0, ARGV[3] + 0, cost_1
    local lead, stored = 0, try('GET', key)
    if stored and (#stored == 24 or #stored == 32 or #stored == 48) then
      local size, rate, at = struct.unpack('<ddd', stored)
      if size > 0 and size < 2^53 and rate > 0 then
        if at > now then -- the clock was set back
          at = now
          local state = struct.pack('<ddd', size, rate, at) .. string.sub(stored, 25)
          call('SET', key, state, 'PXAT', string.format('%d', math.ceil((now + math.ceil(size)) / 1000)))
        end
        local tick
        if rate ~= interval then
          tick = interval >= 2^17 and 1 or interval >= 2^6 and 2^-4
            or interval >= 2^-2 and 2^-12 or interval >= 2^-10 and 2^-20 or 2^-30
          size = math.ceil(size / rate * interval / tick) * tick
        end
        if size > tolerance then
          local debt = #stored == 32 and struct.unpack('<d', stored, 25) or 0
          if tick then debt = math.ceil(debt / rate * interval / tick) * tick end
          size = math.min(size - debt, tolerance) + math.min(debt, tolerance)
        end
        if size > now - at then lead = size - (now - at) end
      end
    elseif stored then
      if stored.err and not string.find(stored.err, 'WRONGTYPE', 1, true) then return stored end
      call('DEL', key)
    end
    if lead > 0 and now - charged < tolerance then
      lead = lead - cost * interval
      if lead > 0 then
        local state = struct.pack('<ddd', lead, interval, now)
        if lead > tolerance then state = state .. struct.pack('<d', lead - tolerance) end
        call('SET', key, state, 'PXAT', string.format('%d', math.ceil((now + math.ceil(lead)) / 1000)))
      else
        call('DEL', key)
      end
    end
  end
  if cost_1 < 0 then
    local key, interval, tolerance, cost = KEYS[1], ARGV[2] + 0, ARGV[3] + 0, cost_1
    local lead, stored = 0, try('GET', key)
    if stored and (#stored == 24 or #stored == 32 or #stored == 48) then
      local size, rate, at = struct.unpack('<ddd', stored)
      if size > 0 and size < 2^53 and rate > 0 then
        if at > now then -- the clock was set back
          at = now
          local state = struct.pack('<ddd', size, rate, at) .. string.sub(stored, 25)
          call('SET', key, state, 'PXAT', string.format('%d', math.ceil((now + math.ceil(size)) / 1000)))
        end
        local tick
        if rate ~= interval then
          tick = interval >= 2^17 and 1 or interval >= 2^6 and 2^-4
            or interval >= 2^-2 and 2^-12 or interval >= 2^-10 and 2^-20 or 2^-30
          size = math.ceil(size / rate * interval / tick) * tick
        end
        if size > tolerance then
          local debt = #stored == 32 and struct.unpack('<d', stored, 25) or 0
          if tick then debt = math.ceil(debt / rate * interval / tick) * tick end
          size = math.min(size - debt, tolerance) + math.min(debt, tolerance)
        end
        if size > now - at then lead = size - (now - at) end
      end
    elseif stored then
      if stored.err and not string.find(stored.err, 'WRONGTYPE', 1, true) then return stored end
      call('DEL', key)
    end
    local owed = math.min(-cost * interval, 2 * tolerance)
    if lead == 0 and charged < now then owed = owed - (now - charged) end
    owed = math.min(owed, 2 * tolerance - lead)
    if owed > 0 then
      lead = lead + owed
      local state = struct.pack('<ddd', lead, interval, now)
      if lead > tolerance then state = state .. struct.pack('<d', lead - tolerance) end
      call('SET', key, state, 'PXAT', string.format('%d', math.ceil((now + math.ceil(lead)) / 1000)))
    end
  end
  local cost_2 = ARGV[4] + 0
  if cost_2 > 0 then
    local key, interval, tolerance, cost = KEYS[2], ARGV[5] + 0, ARGV[6] + 0, cost_2
    local lead, stored = 0, try('GET', key)
    if stored and (#stored == 24 or #stored == 32 or #stored == 48) then
      local size, rate, at = struct.unpack('<ddd', stored)
      if size > 0 and size < 2^53 and rate > 0 then
        if at > now then -- the clock was set back
          at = now
          local state = struct.pack('<ddd', size, rate, at) .. string.sub(stored, 25)
          call('SET', key, state, 'PXAT', string.format('%d', math.ceil((now + math.ceil(size)) / 1000)))
        end
        local tick
        if rate ~= interval then
          tick = interval >= 2^17 and 1 or interval >= 2^6 and 2^-4
            or interval >= 2^-2 and 2^-12 or interval >= 2^-10 and 2^-20 or 2^-30
          size = math.ceil(size / rate * interval / tick) * tick
        end
        if size > tolerance then
          local debt = #stored == 32 and struct.unpack('<d', stored, 25) or 0
          if tick then debt = math.ceil(debt / rate * interval / tick) * tick end
          size = math.min(size - debt, tolerance) + math.min(debt, tolerance)
        end
        if size > now - at then lead = size - (now - at) end
      end
    elseif stored then
      if stored.err and not string.find(stored.err, 'WRONGTYPE', 1, true) then return stored end
      call('DEL', key)
    end
    if lead > 0 and now - charged < tolerance then
      lead = lead - cost * interval
      if lead > 0 then
        local state = struct.pack('<ddd', lead, interval, now)
        if lead > tolerance then state = state .. struct.pack('<d', lead - tolerance) end
        call('SET', key, state, 'PXAT', string.format('%d', math.ceil((now + math.ceil(lead)) / 1000)))
      else
        call('DEL', key)
      end
    end
  end
  if cost_2 < 0 then
    local key, interval, tolerance, cost = KEYS[2], ARGV[5] + 0, ARGV[6] + 0, cost_2
    local lead, stored = 0, try('GET', key)
    if stored and (#stored == 24 or #stored == 32 or #stored == 48) then
      local size, rate, at = struct.unpack('<ddd', stored)
      if size > 0 and size < 2^53 and rate > 0 then
        if at > now then -- the clock was set back
          at = now
          local state = struct.pack('<ddd', size, rate, at) .. string.sub(stored, 25)
          call('SET', key, state, 'PXAT', string.format('%d', math.ceil((now + math.ceil(size)) / 1000)))
        end
        local tick
        if rate ~= interval then
          tick = interval >= 2^17 and 1 or interval >= 2^6 and 2^-4
            or interval >= 2^-2 and 2^-12 or interval >= 2^-10 and 2^-20 or 2^-30
          size = math.ceil(size / rate * interval / tick) * tick
        end
        if size > tolerance then
          local debt = #stored == 32 and struct.unpack('<d', stored, 25) or 0
          if tick then debt = math.ceil(debt / rate * interval / tick) * tick end
          size = math.min(size - debt, tolerance) + math.min(debt, tolerance)
        end
        if size > now - at then lead = size - (now - at) end
      end
    elseif stored then
      if stored.err and not string.find(stored.err, 'WRONGTYPE', 1, true) then return stored end
      call('DEL', key)
    end
    local owed = math.min(-cost * interval, 2 * tolerance)
    if lead == 0 and charged < now then owed = owed - (now - charged) end
    owed = math.min(owed, 2 * tolerance - lead)
    if owed > 0 then
      lead = lead + owed
      local state = struct.pack('<ddd', lead, interval, now)
      if lead > tolerance then state = state .. struct.pack('<d', lead - tolerance) end
      call('SET', key, state, 'PXAT', string.format('%d', math.ceil((now + math.ceil(lead)) / 1000)))
    end
  end
  charged = ARGV[last + 3]
  if charged then
    ARGV[1], ARGV[4], charged, last = ARGV[last + 1], ARGV[last + 2], charged + 0, last + 3
  end
until not charged
return 0
