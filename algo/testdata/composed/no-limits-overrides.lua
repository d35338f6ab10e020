local call, try, KEYS, ARGV = redis.call, redis.pcall, KEYS, ARGV
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local ignored_0, factor_0
do
  local key, penalty_key = KEYS[1], nil
  local ignored, factor
  do
    local override = try('GET', key)
    if override == 'free' then
      if penalty_key then call('DEL', penalty_key) end
      return {now, -1, 0}
    elseif override == 'block' then
      local left = call('PTTL', key)
      return {now, -2, left < 0 and -1 or left > 0 and left * 1000 or 1000}
    elseif override then
      if type(override) == 'table' then
        if not string.find(override.err, 'WRONGTYPE', 1, true) then return override end
        override = ''
      end
      local whole, part = string.match(override, '^x(%d%d?%d?%d?)(.*)$')
      local thousandths = 0
      if whole and (part == '' or string.find(part, '^%.%d%d?%d?$')) then
        thousandths = whole * 1000 + string.sub(part .. '000', 2, 4)
      end
      if thousandths < 1 or thousandths > 1000000 then
        ignored = 1
      elseif thousandths ~= 1000 then
        factor = string.format('%d', thousandths)
      end
    end
  end
  ignored_0, factor_0 = ignored, factor
end
return {now, -4, ignored_0 or 0}
