local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
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
  for age, count in string.gmatch(ARGV[7], '(%d+):(%d+)') do
    local at = now - age
    if at >= penalty.ends and age + 0 < ARGV[5] + 0 then
      if penalty.strikes == 0 or at - penalty.since >= ARGV[5] + 0 then penalty.since, penalty.strikes = at, 0 end
      penalty.strikes, penalty.changed = penalty.strikes + count, true
      if penalty.strikes >= ARGV[4] + 0 then
        penalty.blocks = now - penalty.ends < 2 * penalty.length and penalty.blocks + 1 or 1
        local nth = 0
        for length in string.gmatch(ARGV[6], '%d+') do
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
      local stop = penalty.ends + math.max(2 * penalty.length, ARGV[5] + 0)
      if penalty.strikes > 0 then stop = math.max(stop, penalty.since + 2 * ARGV[5]) end
      local state = struct.pack('<dddI4I4', penalty.since, penalty.ends, penalty.length, penalty.blocks, penalty.strikes)
      call('SET', KEYS[2], state, 'PXAT', string.format('%d', math.ceil(stop / 1000)))
    end
    return {now, 2, penalty.ends - now}
  end
end
local cost_1, interval_1, tolerance_1 = ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0
local lead_1, remaining_1, reset_1, retry_1, before_1 = 0, 0, 0, 0, 0
do
  local stored = call('GET', KEYS[1])
  if stored and (#stored == 24 or #stored == 32) then
    local lead, interval, at = struct.unpack('<ddd', stored)
    if lead > 0 and lead < 2^53 and interval > 0 then
      if at > now then -- the clock was set back
        at = now
        local state = struct.pack('<ddd', lead, interval, at) .. string.sub(stored, 25)
        call('SET', KEYS[1], state, 'PXAT', string.format('%d', math.ceil((now + math.ceil(lead)) / 1000)))
      end
      local tick
      if interval ~= interval_1 then
        tick = interval_1 >= 2^17 and 1 or interval_1 >= 2^6 and 2^-4
          or interval_1 >= 2^-2 and 2^-12 or interval_1 >= 2^-10 and 2^-20 or 2^-30
        lead = math.ceil(lead / interval * interval_1 / tick) * tick
      end
      if lead > tolerance_1 then
        local debt = #stored == 32 and struct.unpack('<d', stored, 25) or 0
        if tick then debt = math.ceil(debt / interval * interval_1 / tick) * tick end
        lead = math.min(lead - debt, tolerance_1) + math.min(debt, tolerance_1)
      end
      if lead > now - at then lead_1 = lead - (now - at) end
    end
  end
  local room, needs = tolerance_1 - lead_1, cost_1 * interval_1
  before_1 = math.ceil(lead_1)
  if room > 0 then remaining_1 = math.floor(room / interval_1) end
  reset_1 = before_1
  if needs > room and cost_1 > 0 then
    retry_1 = needs > tolerance_1 and -1 or math.ceil(needs - room)
  end
end
if retry_1 == 0 then
  if cost_1 > 0 then
    lead_1 = lead_1 + cost_1 * interval_1
    remaining_1, reset_1 = remaining_1 - cost_1, math.ceil(lead_1)
    local state = struct.pack('<ddd', lead_1, interval_1, now)
    call('SET', KEYS[1], state, 'PXAT', string.format('%d', math.ceil((now + reset_1) / 1000)))
  end
else
  if string.sub(ARGV[7], -1) ~= '-' then
    local at, count = now, 1
    if penalty.strikes == 0 or at - penalty.since >= ARGV[5] + 0 then penalty.since, penalty.strikes = at, 0 end
    penalty.strikes, penalty.changed = penalty.strikes + count, true
    if penalty.strikes >= ARGV[4] + 0 then
      penalty.blocks = now - penalty.ends < 2 * penalty.length and penalty.blocks + 1 or 1
      local nth = 0
      for length in string.gmatch(ARGV[6], '%d+') do
        nth = nth + 1
        if nth <= penalty.blocks then penalty.length = length + 0 end
      end
      if penalty.blocks > nth then penalty.blocks = nth end
      penalty.since, penalty.strikes, penalty.ends, penalty.earned = 0, 0, now + penalty.length, penalty.length
    end
  end
end
if penalty.changed then
  local stop = penalty.ends + math.max(2 * penalty.length, ARGV[5] + 0)
  if penalty.strikes > 0 then stop = math.max(stop, penalty.since + 2 * ARGV[5]) end
  local state = struct.pack('<dddI4I4', penalty.since, penalty.ends, penalty.length, penalty.blocks, penalty.strikes)
  call('SET', KEYS[2], state, 'PXAT', string.format('%d', math.ceil(stop / 1000)))
end
return {now, remaining_1, reset_1, retry_1, before_1, penalty.earned}
