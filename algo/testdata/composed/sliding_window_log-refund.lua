local call, try, KEYS, ARGV = redis.call, redis.pcall, KEYS, ARGV
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local charged = ARGV[4] + 0
local last = 4
repeat
  local cost_1 = ARGV[1] + 0
  if cost_1 > 0 then
    local key, window, cost = KEYS[1], ARGV[3] + 0, cost_1
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
  if cost_1 < 0 then
    local key, window, cost, limit = KEYS[1], ARGV[3] + 0, cost_1, ARGV[2] + 0
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
  charged = ARGV[last + 2]
  if charged then
    ARGV[1], charged, last = ARGV[last + 1], charged + 0, last + 2
  end
until not charged
return 0
