local call = redis.call
local cost = ARGV[1] + 0
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local nonce = ARGV[2]
if cost <= 0 then return 0 end
local charged = ARGV[3] + 0
local interval_1, tolerance_1, wrap_1 = ARGV[4] + 0, ARGV[5] + 0, ARGV[6] + 0
local clock_1, lead_1, remaining_1, reset_1, retry_1 = now % wrap_1, 0, 0, 0, 0
do
  local tat = tonumber(call('GET', KEYS[1]))
  if tat then
    lead_1 = (tat - clock_1) % wrap_1
    if not (lead_1 + lead_1 <= wrap_1) or lead_1 > tolerance_1 and call('PTTL', KEYS[1]) < 0 then
      lead_1 = 0
    end
  end
  if lead_1 > 0 and now - charged < tolerance_1 then
    lead_1 = lead_1 - cost * interval_1
    if lead_1 > 0 then
      reset_1 = lead_1 + -lead_1 % 1
      call('SET', KEYS[1], clock_1 + lead_1, 'PXAT', string.format('%d', (now + reset_1 + 999) / 1000))
    else
      call('DEL', KEYS[1])
    end
  end
end
local limit_2, size_2 = ARGV[7] + 0, ARGV[8] + 0
local window_2, start_2 = size_2 * ARGV[9], now - now % size_2
local field_2, here_2, free_2, steps_2 = string.format('%d', start_2)
local remaining_2, reset_2, retry_2 = 0, 0, 0
do
  local field = string.format('%d', charged - charged % size_2)
  local count = tonumber(call('HGET', KEYS[2], field))
  if count and start_2 - field <= window_2 then
    if count > cost then
      call('HSET', KEYS[2], field, count - cost)
    else
      call('HDEL', KEYS[2], field)
      local newest = 0
      for _, start in ipairs(call('HKEYS', KEYS[2])) do
        start = tonumber(start) or 0
        if start > newest then newest = start end
      end
      call('PEXPIREAT', KEYS[2], string.format('%d', (newest + size_2 + window_2 + 999) / 1000))
    end
  end
end
local limit_3, window_3 = ARGV[10] + 0, ARGV[11] + 0
local used_3, remaining_3, reset_3, retry_3 = 0, 0, 0, 0
do
  local member = string.format('%d:', charged) .. nonce .. ':'
  for first = 1, cost, 4000 do
    local members, n = {}, 0
    for i = first, first + 3999 < cost and first + 3999 or cost do
      members[n + 1], n = member .. i, n + 1
    end
    call('ZREM', KEYS[3], unpack(members, 1, n))
  end
  local newest = call('ZRANGE', KEYS[3], -1, -1, 'WITHSCORES')[2]
  if newest then
    call('PEXPIREAT', KEYS[3], string.format('%d', (newest + window_3 + 999) / 1000))
  end
end
return 0
