local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local charged = ARGV[4] + 0
local last = 4
repeat
  local cost_1, limit_1, window_1 = ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0
  local newest_1, last_1, used_1, stale_1 = nil, 0, 0, false
  local remaining_1, reset_1, retry_1, before_1 = 0, 0, 0, 0
  if cost_1 > 0 then
    local entry = call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')
    if entry[2] and entry[2] + 0 > now then -- the clock was set back
      local from, first, units, total = string.format('%d', now), nil, 0, 0
      for _, member in ipairs(call('ZRANGEBYSCORE', KEYS[1], from, '+inf')) do
        if #member == 16 then
          local time, more, all = struct.unpack('<dI4I4', member)
          first, units, total = first or time, units + more, all
        end
      end
      call('ZREMRANGEBYSCORE', KEYS[1], from, '+inf')
      if first then
        call('ZADD', KEYS[1], from, struct.pack('<dI4I4', first < now and first or now, units, total))
        call('PEXPIREAT', KEYS[1], string.format('%d', math.ceil((now + window_1) / 1000)))
      end
      entry = call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')
    end
    local newest, at = entry[1], string.format('%d', charged)
    entry = call('ZRANGEBYSCORE', KEYS[1], at, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
    if entry[1] and #entry[1] == 16 and #newest == 16 then
      local first, units = struct.unpack('<dI4I4', entry[1])
      if first <= charged then
        local _, _, total = struct.unpack('<dI4I4', newest)
        total = total - (units > cost_1 and cost_1 or units)
        call('ZREM', KEYS[1], entry[1])
        if units > cost_1 then
          call('ZADD', KEYS[1], entry[2], struct.pack('<dI4I4', first, units - cost_1, total))
        end
        entry = call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')
        if entry[1] and #entry[1] == 16 then
          first, units = struct.unpack('<dI4I4', entry[1])
          call('ZREM', KEYS[1], entry[1])
          call('ZADD', KEYS[1], entry[2], struct.pack('<dI4I4', first, units, total))
          call('PEXPIREAT', KEYS[1], string.format('%d', math.ceil((entry[2] + window_1) / 1000)))
        end
      end
    end
  end
  if cost_1 < 0 then
    local entry = call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')
    if entry[2] and entry[2] + 0 > now then -- the clock was set back
      local from, first, units, total = string.format('%d', now), nil, 0, 0
      for _, member in ipairs(call('ZRANGEBYSCORE', KEYS[1], from, '+inf')) do
        if #member == 16 then
          local time, more, all = struct.unpack('<dI4I4', member)
          first, units, total = first or time, units + more, all
        end
      end
      call('ZREMRANGEBYSCORE', KEYS[1], from, '+inf')
      if first then
        call('ZADD', KEYS[1], from, struct.pack('<dI4I4', first < now and first or now, units, total))
        call('PEXPIREAT', KEYS[1], string.format('%d', math.ceil((now + window_1) / 1000)))
      end
      entry = call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')
    end
    if entry[1] and #entry[1] == 16 then
      newest_1, last_1 = entry[1], entry[2] + 0
      local gone = now - window_1
      if last_1 > gone then
        local _, _, total = struct.unpack('<dI4I4', newest_1)
        for _, member in ipairs(call('ZRANGEBYSCORE', KEYS[1], '-inf', string.format('%d', gone))) do
          if #member == 16 then
            local _, units = struct.unpack('<dI4I4', member)
            total = total - units
          end
          stale_1 = true
        end
        used_1, before_1 = math.floor(total), last_1 + window_1 - now
      else
        newest_1, stale_1 = nil, true
      end
    end
    local owed, time = math.min(-cost_1, 2 * limit_1 - used_1), math.min(charged, now)
    if owed > 0 and time > now - window_1 then
      if stale_1 then
        call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%d', now - window_1))
      end
      local score = string.format('%d', time)
      local first, units, total = time, owed, used_1 + owed
      local near = call('ZRANGEBYSCORE', KEYS[1], score, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
      if near[1] and #near[1] == 16 then
        local from, more = struct.unpack('<dI4I4', near[1])
        if from <= time or call('ZCARD', KEYS[1]) >= 2048 then
          call('ZREM', KEYS[1], near[1])
          score, first, units = near[2], math.min(from, time), more + owed
        end
      end
      call('ZADD', KEYS[1], score, struct.pack('<dI4I4', first, units, total))
      entry = call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')
      if #entry[1] == 16 then
        first, units = struct.unpack('<dI4I4', entry[1])
        call('ZREM', KEYS[1], entry[1])
        call('ZADD', KEYS[1], entry[2], struct.pack('<dI4I4', first, units, total))
      end
      call('PEXPIREAT', KEYS[1], string.format('%d', math.ceil((entry[2] + window_1) / 1000)))
    end
  end
  charged = ARGV[last + 2]
  if charged then
    ARGV[1], charged, last = ARGV[last + 1], charged + 0, last + 2
  end
until not charged
return 0
