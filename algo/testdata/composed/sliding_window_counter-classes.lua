local call, try, KEYS, ARGV = redis.call, redis.pcall, KEYS, ARGV
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local size, key, cost, room_of_class = ARGV[3] + 0, KEYS[1], ARGV[1] + 0, ARGV[4] + 0
local start = now - now % size
local here, part, grows, stored = 0, 0, false, try('GET', key)
if stored and #stored == 16 then
  local newest, count, older = struct.unpack('<dI4I4', stored)
  if newest > start and newest < 2^53 and newest % size == 0 then -- the clock was set back
    newest, count, older = start, math.min(count + older, 4294967295), 0
    local stop = math.ceil((start + size + size) / 1000)
    call('SET', key, struct.pack('<dI4I4', newest, count, 0), 'PXAT', string.format('%d', stop))
  end
  if newest == start then
    here, part, grows = count, older, true
  elseif newest == start - size then
    part = count
  end
elseif stored then
  if stored.err and not string.find(stored.err, 'WRONGTYPE', 1, true) then return stored end
  call('DEL', key)
end
local whole, before = here, 0
if here > 0 then
  before = start + size + size - now
elseif part > 0 then
  before = start + size - now
end
local most, steps, step, off = room_of_class + 0.0, size, 1, now - start
while most * steps > 2^52 do
  step = step + step
  steps = math.ceil(size / step)
end
local remaining, reset, retry = 0, before, 0
local free = (most - whole) * steps - part * (steps - (off - off % step) / step)
if free > 0 then remaining = math.floor(free / steps) end
local room, leaving, wait = most - cost
if cost > remaining then retry = -1 end
if retry < 0 and room >= 0 then
  if room >= here then
    room, leaving, wait = room - here, part, 0
  else
    leaving, wait = here, size
  end
end
if wait then
  local leave = (steps - math.floor(room * steps / leaving)) * step
  retry = wait + (leave < size and leave or size) - off
end
local reset_1 = reset
if retry == 0 and cost > 0 then
  local start = now - now % size
  local stop = start + size + size
  remaining = remaining - cost
  local reset = stop - now
  if grows then
    call('SETRANGE', key, 8, struct.pack('<I4', here + cost))
  else
    local state = struct.pack('<dI4I4', start, here + cost, part)
    call('SET', key, state, 'PXAT', string.format('%d', (stop + -stop % 1000) / 1000))
  end
  reset_1 = reset
end
return {now, remaining, reset_1, retry, before}
