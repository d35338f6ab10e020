local call, try, KEYS, ARGV = redis.call, redis.pcall, KEYS, ARGV
local math, string, struct = math, string, struct
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local units, cost_1, cost_2 = ARGV[1]
if #units > 1 and string.find(units, ' ', 1, true) then
  cost_1, cost_2 = string.match(units, '(%S+) (%S+)')
  cost_1, cost_2 = cost_1 + 0, cost_2 + 0
else
  cost_1 = units + 0
  cost_2 = cost_1
end
local interval_1, tolerance_1, interval_2, tolerance_2 = struct.unpack('<dddd', ARGV[2])
local lead_1, remaining_1, reset_1, retry_1, before_1
do
  local key, interval, tolerance, cost = KEYS[1], interval_1, tolerance_1, cost_1
  local lead, stored = 0, try('GET', key)
  if stored and (#stored == 24 or #stored == 32 or #stored == 48) then
    local size, rate, at = struct.unpack('<ddd', stored)
    if size > 0 and size < 2^53 and rate > 0 then
      if at > now then -- the clock was set back
        at = now
        local state = struct.pack('<ddd', size, rate, at) .. string.sub(stored, 25)
        call('SET', key, state, 'PXAT', string.format('%d', math.ceil((now + math.ceil(size)) / 1000)))
      end
      local tick
      if rate ~= interval then
        tick = interval >= 2^17 and 1 or interval >= 2^6 and 2^-4
          or interval >= 2^-2 and 2^-12 or interval >= 2^-10 and 2^-20 or 2^-30
        size = math.ceil(size / rate * interval / tick) * tick
      end
      if size > tolerance then
        local debt = #stored == 32 and struct.unpack('<d', stored, 25) or 0
        if tick then debt = math.ceil(debt / rate * interval / tick) * tick end
        size = math.min(size - debt, tolerance) + math.min(debt, tolerance)
      end
      if size > now - at then lead = size - (now - at) end
    end
  elseif stored then
    if stored.err and not string.find(stored.err, 'WRONGTYPE', 1, true) then return stored end
    call('DEL', key)
  end
  local room, needs = tolerance - lead, cost * interval
  local remaining, retry, before = 0, 0, math.ceil(lead)
  local reset = before
  if room > 0 then remaining = math.floor(room / interval) end
  if needs > room and cost > 0 then
    retry = needs > tolerance and -1 or math.ceil(needs - room)
  end
  lead_1, remaining_1, reset_1, retry_1, before_1 = lead, remaining, reset, retry, before
end
local lead_2, remaining_2, reset_2, retry_2, before_2
do
  local key, interval, tolerance, cost = KEYS[2], interval_2, tolerance_2, cost_2
  local lead, stored = 0, try('GET', key)
  if stored and (#stored == 24 or #stored == 32 or #stored == 48) then
    local size, rate, at = struct.unpack('<ddd', stored)
    if size > 0 and size < 2^53 and rate > 0 then
      if at > now then -- the clock was set back
        at = now
        local state = struct.pack('<ddd', size, rate, at) .. string.sub(stored, 25)
        call('SET', key, state, 'PXAT', string.format('%d', math.ceil((now + math.ceil(size)) / 1000)))
      end
      local tick
      if rate ~= interval then
        tick = interval >= 2^17 and 1 or interval >= 2^6 and 2^-4
          or interval >= 2^-2 and 2^-12 or interval >= 2^-10 and 2^-20 or 2^-30
        size = math.ceil(size / rate * interval / tick) * tick
      end
      if size > tolerance then
        local debt = #stored == 32 and struct.unpack('<d', stored, 25) or 0
        if tick then debt = math.ceil(debt / rate * interval / tick) * tick end
        size = math.min(size - debt, tolerance) + math.min(debt, tolerance)
      end
      if size > now - at then lead = size - (now - at) end
    end
  elseif stored then
    if stored.err and not string.find(stored.err, 'WRONGTYPE', 1, true) then return stored end
    call('DEL', key)
  end
  local room, needs = tolerance - lead, cost * interval
  local remaining, retry, before = 0, 0, math.ceil(lead)
  local reset = before
  if room > 0 then remaining = math.floor(room / interval) end
  if needs > room and cost > 0 then
    retry = needs > tolerance and -1 or math.ceil(needs - room)
  end
  lead_2, remaining_2, reset_2, retry_2, before_2 = lead, remaining, reset, retry, before
end
if cost_2 == 0 or cost_1 * interval_1 > 2 * tolerance_1 then
  retry_2 = -1
elseif retry_2 >= 0 and lead_1 + cost_1 * interval_1 - 2 * tolerance_1 > retry_2 then
  retry_2 = math.ceil(lead_1 + cost_1 * interval_1 - 2 * tolerance_1)
end
if (retry_2 == 0 or retry_1 == 0) then
  if cost_1 > 0 then
    local key, cost, interval, tolerance, lead, remaining = KEYS[1], cost_1, interval_1, tolerance_1, lead_1, remaining_1
    lead = lead + cost * interval
    remaining = math.max(remaining - cost, 0)
    local reset = math.ceil(lead)
    local state = struct.pack('<ddd', lead, interval, now)
    if lead > tolerance then state = state .. struct.pack('<d', lead - tolerance) end
    local stop = now + reset
    call('SET', key, state, 'PXAT', string.format('%d', (stop + -stop % 1000) / 1000))
    remaining_1, reset_1 = remaining, reset
  end
  if retry_2 == 0 then
    local key, cost, interval, lead, remaining = KEYS[2], cost_2, interval_2, lead_2, remaining_2
    lead = lead + cost * interval
    remaining = remaining - cost
    local reset = math.ceil(lead)
    local state = struct.pack('<ddd', lead, interval, now)
    local stop = now + reset
    call('SET', key, state, 'PXAT', string.format('%d', (stop + -stop % 1000) / 1000))
    remaining_2, reset_2 = remaining, reset
  end
end
return {now, remaining_1, reset_1, retry_1, before_1, remaining_2, reset_2, retry_2, before_2}
