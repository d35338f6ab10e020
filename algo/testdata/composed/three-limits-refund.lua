local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local charged = ARGV[11] + 0
local last = 11
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
  local cost_2, size_2, n_2 = ARGV[4] + 0, ARGV[6] + 0, ARGV[7] + 0
  local start_2, here_2, counts_2, grows_2 = now - now % size_2, 0
  local remaining_2, reset_2, retry_2, before_2 = 0, 0, 0, 0
  if cost_2 > 0 then
    local stored, units = call('GET', KEYS[2])
    if stored and #stored == 4 * n_2 + 12 then
      local layout, newest = '<' .. string.rep('I4', n_2 + 1), struct.unpack('<d', stored)
      if newest > start_2 and newest < 2^53 and newest % size_2 == 0 then -- the clock was set back
        units = {struct.unpack(layout, stored, 9)}
        local ahead, count = (newest - start_2) / size_2, 0
        for i = 1, math.min(ahead, n_2) + 1 do count = count + units[i] end
        stored = struct.pack('<dI4', start_2, math.min(count, 4294967295))
          .. string.sub(stored, 13 + 4 * ahead) .. string.rep('\0', 4 * math.min(ahead, n_2))
        newest = start_2
        local stop = math.ceil((start_2 + size_2 * (n_2 + 1)) / 1000)
        call('SET', KEYS[2], stored, 'PXAT', string.format('%d', stop))
      end
      local behind = (start_2 - newest) / size_2
      if behind % 1 == 0 and behind >= 0 and behind <= n_2 then
        grows_2 = behind == 0
        counts_2 = string.rep('\0', 4 * behind) .. string.sub(stored, 9, 4 * (n_2 - behind) + 12)
        units = {struct.unpack(layout, counts_2)}
      end
    end
    local n = n_2
    local stored, from = call('GET', KEYS[2]), charged - charged % size_2
    if stored and #stored == 4 * n + 12 and start_2 - from <= size_2 * n then
      local newest = struct.unpack('<d', stored)
      local age = (newest - from) / size_2
      if age % 1 == 0 and age >= 0 and age <= n then
        local count = struct.unpack('<I4', stored, 9 + 4 * age)
        count = struct.pack('<I4', count > cost_2 and count - cost_2 or 0)
        local counts = string.sub(stored, 9, 8 + 4 * age) .. count .. string.sub(stored, 13 + 4 * age)
        local empty = 0
        while string.sub(counts, 4 * empty + 1, 4 * empty + 4) == '\0\0\0\0' do empty = empty + 1 end
        if empty <= n then
          newest = newest - size_2 * empty
          local state = struct.pack('<d', newest) .. string.sub(counts, 4 * empty + 1) .. string.rep('\0', 4 * empty)
          local stop = math.ceil((newest + size_2 * (n + 1)) / 1000)
          call('SET', KEYS[2], state, 'PXAT', string.format('%d', stop))
        else
          call('DEL', KEYS[2])
        end
      end
    end
  end
  if cost_2 < 0 then
    local stored, units = call('GET', KEYS[2])
    if stored and #stored == 4 * n_2 + 12 then
      local layout, newest = '<' .. string.rep('I4', n_2 + 1), struct.unpack('<d', stored)
      if newest > start_2 and newest < 2^53 and newest % size_2 == 0 then -- the clock was set back
        units = {struct.unpack(layout, stored, 9)}
        local ahead, count = (newest - start_2) / size_2, 0
        for i = 1, math.min(ahead, n_2) + 1 do count = count + units[i] end
        stored = struct.pack('<dI4', start_2, math.min(count, 4294967295))
          .. string.sub(stored, 13 + 4 * ahead) .. string.rep('\0', 4 * math.min(ahead, n_2))
        newest = start_2
        local stop = math.ceil((start_2 + size_2 * (n_2 + 1)) / 1000)
        call('SET', KEYS[2], stored, 'PXAT', string.format('%d', stop))
      end
      local behind = (start_2 - newest) / size_2
      if behind % 1 == 0 and behind >= 0 and behind <= n_2 then
        grows_2 = behind == 0
        counts_2 = string.rep('\0', 4 * behind) .. string.sub(stored, 9, 4 * (n_2 - behind) + 12)
        units = {struct.unpack(layout, counts_2)}
      end
    end
    local whole, part_2 = 0, 0
    if counts_2 then
      local newest
      for i = 1, n_2 do
        local count = units[i]
        if count > 0 then
          whole, newest = whole + count, newest or i
        end
      end
      here_2, part_2 = units[1], units[n_2 + 1]
      if part_2 > 0 then newest = newest or n_2 + 1 end
      if newest then before_2 = start_2 + size_2 * (n_2 + 2 - newest) - now end
    end
    local n = n_2
    local counts = counts_2 or string.rep('\0', 4 * n + 4)
    local limit, steps, step = ARGV[5] + 0.0, size_2, 1
    while limit * steps > 2^52 do
      step = step + step
      steps = math.ceil(size_2 / step)
    end
    local free = (2 * limit - whole) * steps - part_2 * (steps - math.floor((now - start_2) / step))
    local owed = math.min(-cost_2, math.floor(free / steps))
    local age = charged < now and (start_2 - (charged - charged % size_2)) / size_2 or 0
    if owed > 0 and age <= n then
      local count = math.min(struct.unpack('<I4', counts, 1 + 4 * age) + owed, 4294967295)
      counts = string.sub(counts, 1, 4 * age) .. struct.pack('<I4', count) .. string.sub(counts, 5 + 4 * age)
      local empty = 0
      while string.sub(counts, 4 * empty + 1, 4 * empty + 4) == '\0\0\0\0' do empty = empty + 1 end
      local newest = start_2 - size_2 * empty
      local state = struct.pack('<d', newest) .. string.sub(counts, 4 * empty + 1) .. string.rep('\0', 4 * empty)
      call('SET', KEYS[2], state, 'PXAT', string.format('%d', math.ceil((newest + size_2 * (n + 1)) / 1000)))
    end
  end
  local cost_3, limit_3, window_3 = ARGV[8] + 0, ARGV[9] + 0, ARGV[10] + 0
  local newest_3, last_3, used_3, stale_3 = nil, 0, 0, false
  local remaining_3, reset_3, retry_3, before_3 = 0, 0, 0, 0
  if cost_3 > 0 then
    local entry = call('ZRANGE', KEYS[3], -1, -1, 'WITHSCORES')
    if entry[2] and entry[2] + 0 > now then -- the clock was set back
      local from, first, units, total = string.format('%d', now), nil, 0, 0
      for _, member in ipairs(call('ZRANGEBYSCORE', KEYS[3], from, '+inf')) do
        if #member == 16 then
          local time, more, all = struct.unpack('<dI4I4', member)
          first, units, total = first or time, units + more, all
        end
      end
      call('ZREMRANGEBYSCORE', KEYS[3], from, '+inf')
      if first then
        call('ZADD', KEYS[3], from, struct.pack('<dI4I4', first < now and first or now, units, total))
        call('PEXPIREAT', KEYS[3], string.format('%d', math.ceil((now + window_3) / 1000)))
      end
      entry = call('ZRANGE', KEYS[3], -1, -1, 'WITHSCORES')
    end
    local newest, at = entry[1], string.format('%d', charged)
    entry = call('ZRANGEBYSCORE', KEYS[3], at, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
    if entry[1] and #entry[1] == 16 and #newest == 16 then
      local first, units = struct.unpack('<dI4I4', entry[1])
      if first <= charged then
        local _, _, total = struct.unpack('<dI4I4', newest)
        total = total - (units > cost_3 and cost_3 or units)
        call('ZREM', KEYS[3], entry[1])
        if units > cost_3 then
          call('ZADD', KEYS[3], entry[2], struct.pack('<dI4I4', first, units - cost_3, total))
        end
        entry = call('ZRANGE', KEYS[3], -1, -1, 'WITHSCORES')
        if entry[1] and #entry[1] == 16 then
          first, units = struct.unpack('<dI4I4', entry[1])
          call('ZREM', KEYS[3], entry[1])
          call('ZADD', KEYS[3], entry[2], struct.pack('<dI4I4', first, units, total))
          call('PEXPIREAT', KEYS[3], string.format('%d', math.ceil((entry[2] + window_3) / 1000)))
        end
      end
    end
  end
  if cost_3 < 0 then
    local entry = call('ZRANGE', KEYS[3], -1, -1, 'WITHSCORES')
    if entry[2] and entry[2] + 0 > now then -- the clock was set back
      local from, first, units, total = string.format('%d', now), nil, 0, 0
      for _, member in ipairs(call('ZRANGEBYSCORE', KEYS[3], from, '+inf')) do
        if #member == 16 then
          local time, more, all = struct.unpack('<dI4I4', member)
          first, units, total = first or time, units + more, all
        end
      end
      call('ZREMRANGEBYSCORE', KEYS[3], from, '+inf')
      if first then
        call('ZADD', KEYS[3], from, struct.pack('<dI4I4', first < now and first or now, units, total))
        call('PEXPIREAT', KEYS[3], string.format('%d', math.ceil((now + window_3) / 1000)))
      end
      entry = call('ZRANGE', KEYS[3], -1, -1, 'WITHSCORES')
    end
    if entry[1] and #entry[1] == 16 then
      newest_3, last_3 = entry[1], entry[2] + 0
      local gone = now - window_3
      if last_3 > gone then
        local _, _, total = struct.unpack('<dI4I4', newest_3)
        for _, member in ipairs(call('ZRANGEBYSCORE', KEYS[3], '-inf', string.format('%d', gone))) do
          if #member == 16 then
            local _, units = struct.unpack('<dI4I4', member)
            total = total - units
          end
          stale_3 = true
        end
        used_3, before_3 = math.floor(total), last_3 + window_3 - now
      else
        newest_3, stale_3 = nil, true
      end
    end
    local owed, time = math.min(-cost_3, 2 * limit_3 - used_3), math.min(charged, now)
    if owed > 0 and time > now - window_3 then
      if stale_3 then
        call('ZREMRANGEBYSCORE', KEYS[3], '-inf', string.format('%d', now - window_3))
      end
      local score = string.format('%d', time)
      local first, units, total = time, owed, used_3 + owed
      local near = call('ZRANGEBYSCORE', KEYS[3], score, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
      if near[1] and #near[1] == 16 then
        local from, more = struct.unpack('<dI4I4', near[1])
        if from <= time or call('ZCARD', KEYS[3]) >= 2048 then
          call('ZREM', KEYS[3], near[1])
          score, first, units = near[2], math.min(from, time), more + owed
        end
      end
      call('ZADD', KEYS[3], score, struct.pack('<dI4I4', first, units, total))
      entry = call('ZRANGE', KEYS[3], -1, -1, 'WITHSCORES')
      if #entry[1] == 16 then
        first, units = struct.unpack('<dI4I4', entry[1])
        call('ZREM', KEYS[3], entry[1])
        call('ZADD', KEYS[3], entry[2], struct.pack('<dI4I4', first, units, total))
      end
      call('PEXPIREAT', KEYS[3], string.format('%d', math.ceil((entry[2] + window_3) / 1000)))
    end
  end
  charged = ARGV[last + 4]
  if charged then
    ARGV[1], ARGV[4], ARGV[8], charged, last = ARGV[last + 1], ARGV[last + 2], ARGV[last + 3], charged + 0, last + 4
  end
until not charged
return 0
