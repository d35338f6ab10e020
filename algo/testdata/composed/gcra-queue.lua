local call, try, KEYS, ARGV = redis.call, redis.pcall, KEYS, ARGV
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local key, interval, tolerance, cost, patience = KEYS[1], ARGV[2] + 0, ARGV[3] + 0, ARGV[1] + 0, ARGV[4] + 0
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
local room, needs = tolerance - patience - lead, cost * interval
local remaining, retry, before, delay, waiting = 0, 0, math.ceil(lead), 0, 0
local reset = before
if room > 0 then remaining = math.floor(room / interval) end
if needs > tolerance - patience then
  retry = -1
elseif needs > room and cost > 0 then
  delay = math.ceil(needs - room)
  waiting = cost - remaining
  if delay > patience then retry, delay, waiting = delay - patience, 0, 0 end
end
local reset_1 = reset
if retry == 0 and cost > 0 then
  lead = lead + cost * interval
  remaining = remaining + waiting - cost
  local reset = math.ceil(lead)
  local state = struct.pack('<ddd', lead, interval, now)
  local stop = now + reset
  call('SET', key, state, 'PXAT', string.format('%d', (stop + -stop % 1000) / 1000))
  reset_1 = reset
end
return {now, remaining, reset_1, retry, before, delay, waiting}
