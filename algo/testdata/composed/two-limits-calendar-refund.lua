local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local start_2, end_2 = ARGV[7] + 0, ARGV[8] + 0
if now < start_2 then
  start_2, end_2 = ARGV[6] + 0, start_2
elseif now >= end_2 then
  start_2, end_2 = end_2, ARGV[9] + 0
end
if now < start_2 or now >= end_2 then start_2, end_2 = 0, 0 end
local charged = ARGV[10] + 0
local last = 10
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
  local cost_2, limit_2, window_2 = ARGV[4] + 0, ARGV[5] + 0, end_2 - start_2
  local used_2, remaining_2, reset_2, retry_2, before_2 = 0, 0, 0, 0, 0
  local base_2 = start_2 / 60000000 % 2^22 * 2^31
  if cost_2 > 0 then
    local stored = tonumber(call('GET', KEYS[2]))
    if stored then
      local count = stored % 2147483648
      if stored - count == base_2 then used_2 = count end
    end
    if used_2 > 0 and charged >= start_2 and charged - start_2 < window_2 then
      if used_2 > cost_2 then
        call('DECRBY', KEYS[2], ARGV[4])
      else
        call('DEL', KEYS[2])
      end
    end
  end
  if cost_2 < 0 then
    local stored = tonumber(call('GET', KEYS[2]))
    if stored then
      local count = stored % 2147483648
      if stored - count == base_2 then used_2 = count end
    end
    local owed = math.min(-cost_2, 2 * limit_2 - used_2)
    local own = not stored or stored - stored % 2147483648 == base_2
    if owed > 0 and own and charged >= start_2 and charged - start_2 < window_2 then
      if used_2 > 0 then
        call('INCRBY', KEYS[2], string.format('%d', owed))
      else
        local state = string.format('%d', base_2 + owed)
        call('SET', KEYS[2], state, 'PXAT', string.format('%d', (start_2 + window_2) / 1000))
      end
    end
  end
  charged = ARGV[last + 3]
  if charged then
    ARGV[1], ARGV[4], charged, last = ARGV[last + 1], ARGV[last + 2], charged + 0, last + 3
  end
until not charged
return 0
