local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local start_1, end_1 = ARGV[4] + 0, ARGV[5] + 0
if now < start_1 then
  start_1, end_1 = ARGV[3] + 0, start_1
elseif now >= end_1 then
  start_1, end_1 = end_1, ARGV[6] + 0
end
if now < start_1 or now >= end_1 then return {now} end
local cost_1, limit_1, window_1 = ARGV[1] + 0, ARGV[2] + 0, end_1 - start_1
local used_1, remaining_1, reset_1, retry_1, before_1 = 0, 0, 0, 0, 0
local base_1 = start_1 / 60000000 % 2^22 * 2^31
do
  local stored = tonumber(call('GET', KEYS[1]))
  if stored then
    local count = stored % 2147483648
    if stored - count == base_1 then used_1 = count end
  end
  local left = start_1 + window_1 - now
  if used_1 > 0 then before_1 = left end
  if used_1 < limit_1 then remaining_1 = limit_1 - used_1 end
  reset_1 = before_1
  if cost_1 > remaining_1 then retry_1 = cost_1 > limit_1 and -1 or left end
end
if retry_1 == 0 then
  if cost_1 > 0 then
    remaining_1, reset_1 = remaining_1 - cost_1, start_1 + window_1 - now
    if used_1 > 0 then
      call('INCRBY', KEYS[1], ARGV[1])
    else
      local state = string.format('%d', base_1 + cost_1)
      call('SET', KEYS[1], state, 'PXAT', string.format('%d', (start_1 + window_1) / 1000))
    end
  end
end
return {now, remaining_1, reset_1, retry_1, before_1, start_1}
