local call, try, KEYS, ARGV = redis.call, redis.pcall, KEYS, ARGV
local math, string, struct = math, string, struct
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local charged = ARGV[11] + 0
local last = 11
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
  if cost_1 < 0 then
    local key, cost, interval, tolerance = KEYS[1], cost_1, ARGV[2] + 0, ARGV[3] + 0
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
    local past = now - at
    if rate < interval then past = math.floor(past * rate / interval) end
    local lead = size - past
    if lead > 0 then debt = math.max(debt - past, 0) else lead, debt, rate = 0, 0, interval end
    local capacity = tolerance / interval * rate
    local owed = math.min(-cost * rate, 2 * capacity)
    if lead == 0 and charged < now then owed = owed - (now - charged) end
    local free = math.max(capacity + debt - lead, 0)
    owed = math.min(owed, capacity - debt + free, 2^53 - 1 - lead)
    if owed > 0 then
      lead, debt = lead + owed, debt + math.max(owed - free, 0)
      local state = struct.pack('<ddd', lead, rate, now)
      if debt > 0 then state = state .. struct.pack('<d', debt) end
      call('SET', key, state, 'PXAT', string.format('%d', math.ceil((now + math.ceil(lead)) / 1000)))
    end
  end
  local cost_2 = ARGV[4] + 0
  if cost_2 > 0 then
    local size, n, key, cost = ARGV[6] + 0, ARGV[7], KEYS[2], cost_2
    local start = now - now % size
    n = n + 0
    local counts, units, grows
    local stored = try('GET', key)
    if stored and #stored == 4 * n + 12 then
      local layout, newest = '<' .. string.rep('I4', n + 1), struct.unpack('<d', stored)
      if newest > start and newest < 2^53 and newest % size == 0 then -- the clock was set back
        units = {struct.unpack(layout, stored, 9)}
        local ahead, count = (newest - start) / size, 0
        for i = 1, math.min(ahead, n) + 1 do count = count + units[i] end
        stored = struct.pack('<dI4', start, math.min(count, 4294967295))
          .. string.sub(stored, 13 + 4 * ahead) .. string.rep('\0', 4 * math.min(ahead, n))
        newest = start
        local stop = math.ceil((start + size * (n + 1)) / 1000)
        call('SET', key, stored, 'PXAT', string.format('%d', stop))
      end
      local behind = (start - newest) / size
      if behind % 1 == 0 and behind >= 0 and behind <= n then
        grows = behind == 0
        counts = string.rep('\0', 4 * behind) .. string.sub(stored, 9, 4 * (n - behind) + 12)
        units = {struct.unpack(layout, counts)}
      end
    elseif stored then
      if stored.err and not string.find(stored.err, 'WRONGTYPE', 1, true) then return stored end
      call('DEL', key)
    end
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
  if cost_2 < 0 then
    local size, n, key, cost, limit = ARGV[6] + 0, ARGV[7], KEYS[2], cost_2, ARGV[5] + 0
    local start = now - now % size
    n = n + 0
    local counts, units, grows
    local stored = try('GET', key)
    if stored and #stored == 4 * n + 12 then
      local layout, newest = '<' .. string.rep('I4', n + 1), struct.unpack('<d', stored)
      if newest > start and newest < 2^53 and newest % size == 0 then -- the clock was set back
        units = {struct.unpack(layout, stored, 9)}
        local ahead, count = (newest - start) / size, 0
        for i = 1, math.min(ahead, n) + 1 do count = count + units[i] end
        stored = struct.pack('<dI4', start, math.min(count, 4294967295))
          .. string.sub(stored, 13 + 4 * ahead) .. string.rep('\0', 4 * math.min(ahead, n))
        newest = start
        local stop = math.ceil((start + size * (n + 1)) / 1000)
        call('SET', key, stored, 'PXAT', string.format('%d', stop))
      end
      local behind = (start - newest) / size
      if behind % 1 == 0 and behind >= 0 and behind <= n then
        grows = behind == 0
        counts = string.rep('\0', 4 * behind) .. string.sub(stored, 9, 4 * (n - behind) + 12)
        units = {struct.unpack(layout, counts)}
      end
    elseif stored then
      if stored.err and not string.find(stored.err, 'WRONGTYPE', 1, true) then return stored end
      call('DEL', key)
    end
    local whole, here, part, before = 0, 0, 0, 0
    if counts then
      local newest
      for i = 1, n do
        local count = units[i]
        if count > 0 then
          whole, newest = whole + count, newest or i
        end
      end
      here, part = units[1], units[n + 1]
      if part > 0 then newest = newest or n + 1 end
      if newest then before = start + size * (n + 2 - newest) - now end
    end
    counts = counts or string.rep('\0', 4 * n + 4)
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
  local cost_3 = ARGV[8] + 0
  if cost_3 > 0 then
    local key, window, cost = KEYS[3], ARGV[10] + 0, cost_3
    local entry = try('ZRANGE', key, -1, -1, 'WITHSCORES')
    if not entry[2] then
      if entry.err then
        local stored = entry
        if stored.err and not string.find(stored.err, 'WRONGTYPE', 1, true) then return stored end
        call('DEL', key)
        entry = {}
      end
    elseif entry[2] + 0 > now then -- the clock was set back
      local from, first, units, total = string.format('%d', now), nil, 0, 0
      for _, member in ipairs(call('ZRANGEBYSCORE', key, from, '+inf')) do
        if #member == 16 then
          local time, more, all = struct.unpack('<dI4I4', member)
          first, units, total = first or time, units + more, all
        end
      end
      call('ZREMRANGEBYSCORE', key, from, '+inf')
      if first then
        call('ZADD', key, from, struct.pack('<dI4I4', first < now and first or now, units, total))
        call('PEXPIREAT', key, string.format('%d', math.ceil((now + window) / 1000)))
      end
      entry = call('ZRANGE', key, -1, -1, 'WITHSCORES')
    end
    local newest, at = entry[1], string.format('%d', charged)
    entry = call('ZRANGEBYSCORE', key, at, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
    if entry[1] and #entry[1] == 16 and #newest == 16 then
      local first, units = struct.unpack('<dI4I4', entry[1])
      if first <= charged then
        local _, _, total = struct.unpack('<dI4I4', newest)
        total = total - (units > cost and cost or units)
        call('ZREM', key, entry[1])
        if units > cost then
          call('ZADD', key, entry[2], struct.pack('<dI4I4', first, units - cost, total))
        end
        entry = call('ZRANGE', key, -1, -1, 'WITHSCORES')
        if entry[1] and #entry[1] == 16 then
          first, units = struct.unpack('<dI4I4', entry[1])
          call('ZREM', key, entry[1])
          call('ZADD', key, entry[2], struct.pack('<dI4I4', first, units, total))
          call('PEXPIREAT', key, string.format('%d', math.ceil((entry[2] + window) / 1000)))
        end
      end
    end
  end
  if cost_3 < 0 then
    local key, window, cost, limit = KEYS[3], ARGV[10] + 0, cost_3, ARGV[9] + 0
    local entry = try('ZRANGE', key, -1, -1, 'WITHSCORES')
    if not entry[2] then
      if entry.err then
        local stored = entry
        if stored.err and not string.find(stored.err, 'WRONGTYPE', 1, true) then return stored end
        call('DEL', key)
        entry = {}
      end
    elseif entry[2] + 0 > now then -- the clock was set back
      local from, first, units, total = string.format('%d', now), nil, 0, 0
      for _, member in ipairs(call('ZRANGEBYSCORE', key, from, '+inf')) do
        if #member == 16 then
          local time, more, all = struct.unpack('<dI4I4', member)
          first, units, total = first or time, units + more, all
        end
      end
      call('ZREMRANGEBYSCORE', key, from, '+inf')
      if first then
        call('ZADD', key, from, struct.pack('<dI4I4', first < now and first or now, units, total))
        call('PEXPIREAT', key, string.format('%d', math.ceil((now + window) / 1000)))
      end
      entry = call('ZRANGE', key, -1, -1, 'WITHSCORES')
    end
    local newest, last, used, stale, before = nil, 0, 0, false, 0
    if entry[1] and #entry[1] == 16 then
      newest, last = entry[1], entry[2] + 0
      local gone = now - window
      if last > gone then
        local _, _, total = struct.unpack('<dI4I4', newest)
        for _, member in ipairs(call('ZRANGEBYSCORE', key, '-inf', string.format('%d', gone))) do
          if #member == 16 then
            local _, units = struct.unpack('<dI4I4', member)
            total = total - units
          end
          stale = true
        end
        used, before = math.floor(total), last + window - now
      else
        newest, stale = nil, true
      end
    end
    local owed, time = math.min(-cost, 2 * limit - used), math.min(charged, now)
    if owed > 0 and time > now - window then
      if stale then
        call('ZREMRANGEBYSCORE', key, '-inf', string.format('%d', now - window))
      end
      local score = string.format('%d', time)
      local first, units, total = time, owed, used + owed
      local near = call('ZRANGEBYSCORE', key, score, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
      if near[1] and #near[1] == 16 then
        local from, more = struct.unpack('<dI4I4', near[1])
        if from <= time or call('ZCARD', key) >= 2048 then
          call('ZREM', key, near[1])
          score, first, units = near[2], math.min(from, time), more + owed
        end
      end
      call('ZADD', key, score, struct.pack('<dI4I4', first, units, total))
      entry = call('ZRANGE', key, -1, -1, 'WITHSCORES')
      if #entry[1] == 16 then
        first, units = struct.unpack('<dI4I4', entry[1])
        call('ZREM', key, entry[1])
        call('ZADD', key, entry[2], struct.pack('<dI4I4', first, units, total))
      end
      call('PEXPIREAT', key, string.format('%d', math.ceil((entry[2] + window) / 1000)))
    end
  end
  charged = ARGV[last + 4]
  if charged then
    ARGV[1], ARGV[4], ARGV[8], charged, last = ARGV[last + 1], ARGV[last + 2], ARGV[last + 3], charged + 0, last + 4
  end
until not charged
return 0
