local call, try, KEYS, ARGV = redis.call, redis.pcall, KEYS, ARGV
local math, string, struct = math, string, struct
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local units, cost_1, cost_2, units_2 = ARGV[1]
if #units > 1 and string.find(units, ' ', 1, true) then
  cost_1, cost_2 = string.match(units, '(%S+) (%S+)')
  units_2 = cost_2
  cost_1, cost_2 = cost_1 + 0, cost_2 + 0
else
  cost_1 = units + 0
  cost_2 = cost_1
  units_2 = units
end
local interval_1, tolerance_1, limit_2, window_2 = struct.unpack('<dddd', ARGV[2])
limit_2, window_2 = math.floor(limit_2), math.floor(window_2)
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
if retry_1 == 0 then
  if cost_1 > 0 then
    local key, cost, interval, lead, remaining = KEYS[1], cost_1, interval_1, lead_1, remaining_1
    lead = lead + cost * interval
    remaining = remaining - cost
    local reset = math.ceil(lead)
    local state = struct.pack('<ddd', lead, interval, now)
    local stop = now + reset
    call('SET', key, state, 'PXAT', string.format('%d', (stop + -stop % 1000) / 1000))
    remaining_1, reset_1 = remaining, reset
  end
  return {now, remaining_1, reset_1, retry_1, before_1}
elseif cost_2 == 0 then
  return {now, remaining_1, reset_1, retry_1, before_1}
end
local stop_2, base_2, used_2, remaining_2, reset_2, retry_2, before_2
do
  local window, key, cost, limit = window_2, KEYS[2], cost_2, limit_2
  local start = now - now % window
  local stop, base = start + window, start / window % 2^22 * 2^31
  local used, stored = 0, try('GET', key)
  local number = tonumber(stored)
  if number then
    local count = number % 2147483648
    if number - count == base then
      used = count
    elseif #stored > 16 then
      number = nil
      if stored.err and not string.find(stored.err, 'WRONGTYPE', 1, true) then return stored end
      call('DEL', key)
    end
  elseif stored then
    if stored.err and not string.find(stored.err, 'WRONGTYPE', 1, true) then return stored end
    call('DEL', key)
  end
  local remaining, reset, retry, before, left = 0, 0, 0, 0, stop - now
  if used > 0 then before, reset = left, left end
  if used < limit then remaining = limit - used end
  if cost > remaining then retry = cost > limit and -1 or left end
  stop_2, base_2, used_2, remaining_2, reset_2, retry_2, before_2 = stop, base, used, remaining, reset, retry, before
end
if retry_2 == 0 then
  if cost_2 > 0 then
    local key, cost, units, base, stop, used, remaining = KEYS[2], cost_2, units_2, base_2, stop_2, used_2, remaining_2
    remaining = remaining - cost
    local reset = stop - now
    local number = base + used + cost
    if used == 0 or try('INCRBY', key, units) ~= number then -- no integer to Redis: 0x1
      local state = string.format('%d', number)
      call('SET', key, state, 'PXAT', string.format('%d', stop / 1000))
    end
    remaining_2, reset_2 = remaining, reset
  end
end
return {now, remaining_1, reset_1, retry_1, before_1, remaining_2, reset_2, retry_2, before_2}
