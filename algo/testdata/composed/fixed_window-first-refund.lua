local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local charged = ARGV[4] + 0
local last = 4
repeat
  local cost_1, limit_1, window_1 = ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0
  local start_1, used_1, remaining_1, reset_1, retry_1, before_1 = now, 0, 0, 0, 0, 0
  if cost_1 > 0 then
    local stored = call('GET', KEYS[1])
    if stored and #stored == 12 then
      local start, count = struct.unpack('<dI4', stored)
      if count > 0 and start < 2^53 and now - start < window_1 then
        if start > now then -- the clock was set back
          start = now
          local state = struct.pack('<dI4', start, count)
          call('SET', KEYS[1], state, 'PXAT', string.format('%d', math.ceil((now + window_1) / 1000)))
        end
        start_1, used_1 = math.floor(start), math.floor(count)
      end
    end
    if used_1 > 0 and charged >= start_1 and charged - start_1 < window_1 then
      if used_1 > cost_1 then
        call('SET', KEYS[1], struct.pack('<dI4', start_1, used_1 - cost_1), 'KEEPTTL')
      else
        call('DEL', KEYS[1])
      end
    end
  end
  if cost_1 < 0 then
    local stored = call('GET', KEYS[1])
    if stored and #stored == 12 then
      local start, count = struct.unpack('<dI4', stored)
      if count > 0 and start < 2^53 and now - start < window_1 then
        if start > now then -- the clock was set back
          start = now
          local state = struct.pack('<dI4', start, count)
          call('SET', KEYS[1], state, 'PXAT', string.format('%d', math.ceil((now + window_1) / 1000)))
        end
        start_1, used_1 = math.floor(start), math.floor(count)
      end
    end
    local owed, at = math.min(-cost_1, 2 * limit_1 - used_1), math.min(charged, now)
    if owed > 0 and used_1 == 0 and now - at < window_1 then
      local state = struct.pack('<dI4', at, owed)
      call('SET', KEYS[1], state, 'PXAT', string.format('%d', math.ceil((at + window_1) / 1000)))
    elseif owed > 0 and used_1 > 0 and at >= start_1 then
      call('SET', KEYS[1], struct.pack('<dI4', start_1, used_1 + owed), 'KEEPTTL')
    end
  end
  charged = ARGV[last + 2]
  if charged then
    ARGV[1], charged, last = ARGV[last + 1], charged + 0, last + 2
  end
until not charged
return 0
