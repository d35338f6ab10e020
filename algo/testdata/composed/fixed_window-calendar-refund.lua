local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local start_1, end_1 = ARGV[4] + 0, ARGV[5] + 0
if now < start_1 then
  start_1, end_1 = ARGV[3] + 0, start_1
elseif now >= end_1 then
  start_1, end_1 = end_1, ARGV[6] + 0
end
if now < start_1 or now >= end_1 then start_1, end_1 = 0, 0 end
local charged = ARGV[7] + 0
local last = 7
repeat
  local cost_1, limit_1, window_1 = ARGV[1] + 0, ARGV[2] + 0, end_1 - start_1
  local used_1, remaining_1, reset_1, retry_1, before_1 = 0, 0, 0, 0, 0
  local base_1 = start_1 / 60000000 % 2^22 * 2^31
  if cost_1 > 0 then
    local stored = tonumber(call('GET', KEYS[1]))
    if stored then
      local count = stored % 2147483648
      if stored - count == base_1 then used_1 = count end
    end
    if used_1 > 0 and charged >= start_1 and charged - start_1 < window_1 then
      if used_1 > cost_1 then
        call('DECRBY', KEYS[1], ARGV[1])
      else
        call('DEL', KEYS[1])
      end
    end
  end
  if cost_1 < 0 then
    local stored = tonumber(call('GET', KEYS[1]))
    if stored then
      local count = stored % 2147483648
      if stored - count == base_1 then used_1 = count end
    end
    local owed = math.min(-cost_1, 2 * limit_1 - used_1)
    local own = not stored or stored - stored % 2147483648 == base_1
    if owed > 0 and own and charged >= start_1 and charged - start_1 < window_1 then
      if used_1 > 0 then
        call('INCRBY', KEYS[1], string.format('%d', owed))
      else
        local state = string.format('%d', base_1 + owed)
        call('SET', KEYS[1], state, 'PXAT', string.format('%d', (start_1 + window_1) / 1000))
      end
    end
  end
  charged = ARGV[last + 2]
  if charged then
    ARGV[1], charged, last = ARGV[last + 1], charged + 0, last + 2
  end
until not charged
return 0
