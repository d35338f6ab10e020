local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local ignored, factor
do
  local override = redis.pcall('GET', KEYS[2])
  if override == 'free' then
    return {now, 0, -1}
  elseif override == 'block' then
    local left = call('PTTL', KEYS[2])
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
if factor ~= ARGV[4] then return {now, (factor or 1000) + 0} end
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
end
return {now, remaining_1, reset_1, retry_1, before_1, ignored}
