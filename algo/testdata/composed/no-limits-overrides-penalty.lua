local call, try, KEYS, ARGV = redis.call, redis.pcall, KEYS, ARGV
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local ignored_0, value_0
do
  local key, made_for, penalty_key = KEYS[1], ARGV[5], KEYS[2]
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
local penalty_0
do
  local key, after, within, lengths, told = KEYS[2], ARGV[1], ARGV[2], ARGV[3], ARGV[4]
  local penalty = {since = 0, strikes = 0, ends = 0, length = 0, blocks = 0, earned = 0}
  do
    local stored = try('GET', key)
    if stored and #stored == 32 then
      local since, ends, length, blocks, count = struct.unpack('<dddI4I4', stored)
      if since >= 0 and since < 2^53 and ends >= 0 and ends < 2^53 and length >= 0 and length < 2^53 then
        penalty.since, penalty.ends, penalty.length = math.floor(since), math.floor(ends), math.floor(length)
        penalty.blocks, penalty.strikes = math.floor(blocks), math.floor(count)
      end
      if penalty.since > now then penalty.since, penalty.changed = now, true end -- the clock was set back
      if penalty.ends - penalty.length > now then penalty.ends, penalty.changed = now + penalty.length, true end
    elseif stored then
      if stored.err and not string.find(stored.err, 'WRONGTYPE', 1, true) then return stored end
      call('DEL', key)
    end
    for age, strikes in string.gmatch(told, '(%d+):(%d+)') do
      local at = now - age
      if at >= penalty.ends and age + 0 < within + 0 then
        if penalty.strikes == 0 or at - penalty.since >= within + 0 then penalty.since, penalty.strikes = at, 0 end
        penalty.strikes, penalty.changed = penalty.strikes + strikes, true
        if penalty.strikes >= after + 0 then
          penalty.blocks = now - penalty.ends < 2 * penalty.length and penalty.blocks + 1 or 1
          local nth = 0
          for length in string.gmatch(lengths, '%d+') do
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
        local stop = penalty.ends + math.max(2 * penalty.length, within + 0)
        if penalty.strikes > 0 then stop = math.max(stop, penalty.since + 2 * within) end
        local state = struct.pack('<dddI4I4', penalty.since, penalty.ends, penalty.length, penalty.blocks, penalty.strikes)
        call('SET', key, state, 'PXAT', string.format('%d', math.ceil(stop / 1000)))
      end
      return {now, -3, penalty.ends - now}
    end
  end
  penalty_0 = penalty
end
do
  local key, value, made_for = KEYS[1], value_0, ARGV[5]
  if value ~= made_for then
    local left = call('PTTL', key)
    return {now, -6, left < 0 and -1 or left > 0 and left * 1000 or 1000, value or ''}
  end
end
if penalty_0.changed then
  local key, penalty, within = KEYS[2], penalty_0, ARGV[2]
  local stop = penalty.ends + math.max(2 * penalty.length, within + 0)
  if penalty.strikes > 0 then stop = math.max(stop, penalty.since + 2 * within) end
  local state = struct.pack('<dddI4I4', penalty.since, penalty.ends, penalty.length, penalty.blocks, penalty.strikes)
  call('SET', key, state, 'PXAT', string.format('%d', math.ceil(stop / 1000)))
end
return {now, -4, ignored_0 or 0}
