local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local ignored, factor
do
  local override = redis.pcall('GET', KEYS[1])
  if override == 'free' then
    call('DEL', KEYS[2])
    return {now, 0, -1}
  elseif override == 'block' then
    local left = call('PTTL', KEYS[1])
    return {now, 1, left < 0 and -1 or left > 0 and left * 1000 or 1000}
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
local penalty = {since = 0, strikes = 0, ends = 0, length = 0, blocks = 0, earned = 0}
do
  local stored = redis.pcall('GET', KEYS[2])
  if type(stored) == 'table' then
    if not string.find(stored.err, 'WRONGTYPE', 1, true) then return stored end
  elseif stored and #stored == 32 then
    local since, ends, length, blocks, strikes = struct.unpack('<dddI4I4', stored)
    if since >= 0 and since < 2^53 and ends >= 0 and ends < 2^53 and length >= 0 and length < 2^53 then
      penalty.since, penalty.ends, penalty.length = math.floor(since), math.floor(ends), math.floor(length)
      penalty.blocks, penalty.strikes = math.floor(blocks), math.floor(strikes)
    end
    if penalty.since > now then penalty.since, penalty.changed = now, true end -- the clock was set back
    if penalty.ends - penalty.length > now then penalty.ends, penalty.changed = now + penalty.length, true end
  end
  for age, count in string.gmatch(ARGV[4], '(%d+):(%d+)') do
    local at = now - age
    if at >= penalty.ends and age + 0 < ARGV[2] + 0 then
      if penalty.strikes == 0 or at - penalty.since >= ARGV[2] + 0 then penalty.since, penalty.strikes = at, 0 end
      penalty.strikes, penalty.changed = penalty.strikes + count, true
      if penalty.strikes >= ARGV[1] + 0 then
        penalty.blocks = now - penalty.ends < 2 * penalty.length and penalty.blocks + 1 or 1
        local nth = 0
        for length in string.gmatch(ARGV[3], '%d+') do
          nth = nth + 1
          if nth <= penalty.blocks then penalty.length = length + 0 end
        end
        if penalty.blocks > nth then penalty.blocks = nth end
        penalty.since, penalty.strikes, penalty.ends, penalty.earned = 0, 0, now + penalty.length, penalty.length
      end
    end
  end
  if penalty.ends > now then
    if penalty.changed then
      local stop = penalty.ends + math.max(2 * penalty.length, ARGV[2] + 0)
      if penalty.strikes > 0 then stop = math.max(stop, penalty.since + 2 * ARGV[2]) end
      local state = struct.pack('<dddI4I4', penalty.since, penalty.ends, penalty.length, penalty.blocks, penalty.strikes)
      call('SET', KEYS[2], state, 'PXAT', string.format('%d', math.ceil(stop / 1000)))
    end
    return {now, 2, penalty.ends - now}
  end
end
if penalty.changed then
  local stop = penalty.ends + math.max(2 * penalty.length, ARGV[2] + 0)
  if penalty.strikes > 0 then stop = math.max(stop, penalty.since + 2 * ARGV[2]) end
  local state = struct.pack('<dddI4I4', penalty.since, penalty.ends, penalty.length, penalty.blocks, penalty.strikes)
  call('SET', KEYS[2], state, 'PXAT', string.format('%d', math.ceil(stop / 1000)))
end
return {now, 3, ignored or 0}
