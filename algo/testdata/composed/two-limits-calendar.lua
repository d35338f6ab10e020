local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local start_2, end_2 = ARGV[7] + 0, ARGV[8] + 0
if now < start_2 then
  start_2, end_2 = ARGV[6] + 0, start_2
elseif now >= end_2 then
  start_2, end_2 = end_2, ARGV[9] + 0
end
if now < start_2 or now >= end_2 then return {now} end
local cost_1, limit_1, window_1 = ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0
local start_1, used_1, remaining_1, reset_1, retry_1, before_1 = now, 0, 0, 0, 0, 0
do
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
  local left = start_1 + window_1 - now
  if used_1 > 0 then before_1 = left end
  if used_1 < limit_1 then remaining_1 = limit_1 - used_1 end
  reset_1 = before_1
  if cost_1 > remaining_1 then retry_1 = cost_1 > limit_1 and -1 or left end
end
local cost_2, limit_2, window_2 = ARGV[4] + 0, ARGV[5] + 0, end_2 - start_2
local used_2, remaining_2, reset_2, retry_2, before_2 = 0, 0, 0, 0, 0
local base_2 = start_2 / 60000000 % 2^22 * 2^31
do
  local stored = tonumber(call('GET', KEYS[2]))
  if stored then
    local count = stored % 2147483648
    if stored - count == base_2 then used_2 = count end
  end
  local left = start_2 + window_2 - now
  if used_2 > 0 then before_2 = left end
  if used_2 < limit_2 then remaining_2 = limit_2 - used_2 end
  reset_2 = before_2
  if cost_2 > remaining_2 then retry_2 = cost_2 > limit_2 and -1 or left end
end
if retry_1 == 0 and retry_2 == 0 then
  if cost_1 > 0 then
    remaining_1, reset_1 = remaining_1 - cost_1, start_1 + window_1 - now
    local state = struct.pack('<dI4', start_1, used_1 + cost_1)
    if used_1 > 0 then
      call('SET', KEYS[1], state, 'KEEPTTL')
    else
      call('SET', KEYS[1], state, 'PXAT', string.format('%d', math.ceil((start_1 + window_1) / 1000)))
    end
  end
  if cost_2 > 0 then
    remaining_2, reset_2 = remaining_2 - cost_2, start_2 + window_2 - now
    if used_2 > 0 then
      call('INCRBY', KEYS[2], ARGV[4])
    else
      local state = string.format('%d', base_2 + cost_2)
      call('SET', KEYS[2], state, 'PXAT', string.format('%d', (start_2 + window_2) / 1000))
    end
  end
end
return {now, remaining_1, reset_1, retry_1, before_1, remaining_2, reset_2, retry_2, before_2, start_2}
