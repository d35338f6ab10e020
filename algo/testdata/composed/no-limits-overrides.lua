local call, try, KEYS, ARGV = redis.call, redis.pcall, KEYS, ARGV
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local ignored_0, value_0
do
  local key, made_for, penalty_key = KEYS[1], ARGV[1], nil
  local ignored
  local value = try('GET', key) or nil
  if value ~= made_for then
    if value == 'free' then
      if penalty_key then call('DEL', penalty_key) end
      local left = call('PTTL', key)
      return {now, -1, left < 0 and -1 or left > 0 and left * 1000 or 1000}
    elseif value == 'block' then
      local left = call('PTTL', key)
      return {now, -2, left < 0 and -1 or left > 0 and left * 1000 or 1000}
    elseif type(value) == 'table' then
      if not string.find(value.err, 'WRONGTYPE', 1, true) then return value end
      ignored, value = 1, nil
    elseif value and (value == '' or #value > 1000) then
      ignored, value = 1, nil
    end
  end
  ignored_0, value_0 = ignored, value
end
do
  local key, value, made_for = KEYS[1], value_0, ARGV[1]
  if value ~= made_for then
    local left = call('PTTL', key)
    return {now, -6, left < 0 and -1 or left > 0 and left * 1000 or 1000, value or ''}
  end
end
return {now, -4, ignored_0 or 0}
