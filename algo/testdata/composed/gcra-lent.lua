local call, try, KEYS, ARGV = redis.call, redis.pcall, KEYS, ARGV
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local key, interval, tolerance, period, cost = KEYS[1], ARGV[4] + 0, ARGV[5] + 0, ARGV[6] + 0, ARGV[1] + 0
local lead, recent, older, ends, stored = 0, 0, 0, 0, try('GET', key)
if stored and (#stored == 24 or #stored == 32 or #stored == 48) then
  local size, rate, at = struct.unpack('<ddd', stored)
  if #stored == 48 then recent, older, ends = struct.unpack('<ddd', stored, 25) end
  if size > 0 and size < 2^53 and rate > 0 and recent >= 0 and older >= 0 and ends >= 0 then
    if at > now then -- the clock was set back
      if #stored == 48 then ends = ends - (at - now) end
      at = now
      local state = struct.pack('<ddd', size, rate, at)
      local stop = now + math.ceil(size)
      if #stored == 48 then
        state = state .. struct.pack('<ddd', recent, older, ends)
        stop = math.max(stop, ends + math.ceil((recent + older) * rate))
        if recent > 0 then stop = math.max(stop, ends + period + math.ceil(recent * rate)) end
      elseif #stored == 32 then
        state = state .. string.sub(stored, 25)
      end
      call('SET', key, state, 'PXAT', string.format('%d', math.ceil(stop / 1000)))
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
    if #stored == 48 then
      local most = math.floor(tolerance / interval + 0.5)
      recent, older = math.min(recent, most), math.min(older, most)
      local both, later = math.min((recent + older) * interval, tolerance), recent * interval
      ends = math.ceil(ends) -- an integer
      local past = now - ends
      lead = math.max(lead, both - math.max(past, 0), later - math.max(past - period, 0))
      if past >= 0 then recent, older, ends = 0, recent, ends + period end
      if past >= period or recent + older == 0 then recent, older, ends = 0, 0, 0 end
    end
  else
    recent, older, ends = 0, 0, 0
  end
elseif stored then
  if stored.err and not string.find(stored.err, 'WRONGTYPE', 1, true) then return stored end
  call('DEL', key)
end
local room, needs = tolerance - lead, cost * interval
local remaining, retry, before = 0, 0, math.ceil(lead)
if room > 0 then remaining = math.floor(room / interval) end
if needs > room and cost > 0 then
  retry = needs > tolerance and -1 or math.ceil(needs - room)
end
if ends > 0 then
  local both, later = math.min((recent + older) * interval, tolerance), recent * interval
  before = math.max(before, ends - now + math.ceil(both))
  if later > 0 then before = math.max(before, ends + period - now + math.ceil(later)) end
  if retry > 0 then
    local to = tolerance - needs
    if both > to then retry = math.max(retry, ends - now + math.ceil(both - to)) end
    if later > to then retry = math.max(retry, ends + period - now + math.ceil(later - to)) end
  end
end
local reset = before
local reset_1 = reset
if retry == 0 and cost > 0 then
  local over, over_at = ARGV[2] + 0, ARGV[3] + 0
  if over > 0 then
    if over_at >= ends - period then
      recent = recent - math.min(over, recent)
    elseif over_at >= ends - 2 * period then
      older = older - math.min(over, older)
    end
  end
  lead = lead + cost * interval
  remaining = remaining - cost
  if cost > 1 then
    if recent + older == 0 then ends = now + period end
    recent = recent + cost
  end
  local reset, state = math.ceil(lead), struct.pack('<ddd', lead, interval, now)
  if recent + older > 0 then
    state = state .. struct.pack('<ddd', recent, older, ends)
    reset = math.max(reset, ends - now + math.ceil((recent + older) * interval))
    if recent > 0 then reset = math.max(reset, ends + period - now + math.ceil(recent * interval)) end
  end
  local stop = now + reset
  call('SET', key, state, 'PXAT', string.format('%d', (stop + -stop % 1000) / 1000))
  reset_1 = reset
end
return {now, remaining, reset_1, retry, before}
