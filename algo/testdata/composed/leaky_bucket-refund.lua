local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local charged = ARGV[4] + 0
local last = 4
repeat
  local cost_1, interval_1, tolerance_1 = ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0
  local lead_1, remaining_1, reset_1, retry_1, before_1 = 0, 0, 0, 0, 0
  if cost_1 > 0 then
    local stored = call('GET', KEYS[1])
    if stored and (#stored == 24 or #stored == 32) then
      local lead, interval, at = struct.unpack('<ddd', stored)
      if lead > 0 and lead < 2^53 and interval > 0 then
        if at > now then -- the clock was set back
          at = now
          local state = struct.pack('<ddd', lead, interval, at) .. string.sub(stored, 25)
          call('SET', KEYS[1], state, 'PXAT', string.format('%d', math.ceil((now + math.ceil(lead)) / 1000)))
        end
        local tick
        if interval ~= interval_1 then
          tick = interval_1 >= 2^17 and 1 or interval_1 >= 2^6 and 2^-4
            or interval_1 >= 2^-2 and 2^-12 or interval_1 >= 2^-10 and 2^-20 or 2^-30
          lead = math.ceil(lead / interval * interval_1 / tick) * tick
        end
        if lead > tolerance_1 then
          local debt = #stored == 32 and struct.unpack('<d', stored, 25) or 0
          if tick then debt = math.ceil(debt / interval * interval_1 / tick) * tick end
          lead = math.min(lead - debt, tolerance_1) + math.min(debt, tolerance_1)
        end
        if lead > now - at then lead_1 = lead - (now - at) end
      end
    end
    if lead_1 > 0 and now - charged < tolerance_1 then
      lead_1 = lead_1 - cost_1 * interval_1
      if lead_1 > 0 then
        local state = struct.pack('<ddd', lead_1, interval_1, now)
        if lead_1 > tolerance_1 then state = state .. struct.pack('<d', lead_1 - tolerance_1) end
        call('SET', KEYS[1], state, 'PXAT', string.format('%d', math.ceil((now + math.ceil(lead_1)) / 1000)))
      else
        call('DEL', KEYS[1])
      end
    end
  end
  if cost_1 < 0 then
    local stored = call('GET', KEYS[1])
    if stored and (#stored == 24 or #stored == 32) then
      local lead, interval, at = struct.unpack('<ddd', stored)
      if lead > 0 and lead < 2^53 and interval > 0 then
        if at > now then -- the clock was set back
          at = now
          local state = struct.pack('<ddd', lead, interval, at) .. string.sub(stored, 25)
          call('SET', KEYS[1], state, 'PXAT', string.format('%d', math.ceil((now + math.ceil(lead)) / 1000)))
        end
        local tick
        if interval ~= interval_1 then
          tick = interval_1 >= 2^17 and 1 or interval_1 >= 2^6 and 2^-4
            or interval_1 >= 2^-2 and 2^-12 or interval_1 >= 2^-10 and 2^-20 or 2^-30
          lead = math.ceil(lead / interval * interval_1 / tick) * tick
        end
        if lead > tolerance_1 then
          local debt = #stored == 32 and struct.unpack('<d', stored, 25) or 0
          if tick then debt = math.ceil(debt / interval * interval_1 / tick) * tick end
          lead = math.min(lead - debt, tolerance_1) + math.min(debt, tolerance_1)
        end
        if lead > now - at then lead_1 = lead - (now - at) end
      end
    end
    local owed = math.min(-cost_1 * interval_1, 2 * tolerance_1)
    if lead_1 == 0 and charged < now then owed = owed - (now - charged) end
    owed = math.min(owed, 2 * tolerance_1 - lead_1)
    if owed > 0 then
      lead_1 = lead_1 + owed
      local state = struct.pack('<ddd', lead_1, interval_1, now)
      if lead_1 > tolerance_1 then state = state .. struct.pack('<d', lead_1 - tolerance_1) end
      call('SET', KEYS[1], state, 'PXAT', string.format('%d', math.ceil((now + math.ceil(lead_1)) / 1000)))
    end
  end
  charged = ARGV[last + 2]
  if charged then
    ARGV[1], charged, last = ARGV[last + 1], charged + 0, last + 2
  end
until not charged
return 0
