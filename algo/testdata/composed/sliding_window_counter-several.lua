local call, try, KEYS, ARGV = redis.call, redis.pcall, KEYS, ARGV
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local size, n, key, cost, limit = ARGV[3] + 0, ARGV[4], KEYS[1], ARGV[1] + 0, ARGV[2] + 0
local start = now - now % size
n = n + 0
local counts, units, grows
local stored = try('GET', key)
if stored and #stored == 4 * n + 12 then
  local layout, newest = '<' .. string.rep('I4', n + 1), struct.unpack('<d', stored)
  if newest > start and newest < 2^53 and newest % size == 0 then -- the clock was set back
    units = {struct.unpack(layout, stored, 9)}
    local ahead, count = (newest - start) / size, 0
    for i = 1, math.min(ahead, n) + 1 do count = count + units[i] end
    stored = struct.pack('<dI4', start, math.min(count, 4294967295))
      .. string.sub(stored, 13 + 4 * ahead) .. string.rep('\0', 4 * math.min(ahead, n))
    newest = start
    local stop = math.ceil((start + size * (n + 1)) / 1000)
    call('SET', key, stored, 'PXAT', string.format('%d', stop))
  end
  local behind = (start - newest) / size
  if behind % 1 == 0 and behind >= 0 and behind <= n then
    grows = behind == 0
    counts = string.rep('\0', 4 * behind) .. string.sub(stored, 9, 4 * (n - behind) + 12)
    units = {struct.unpack(layout, counts)}
  end
elseif stored then
  if stored.err and not string.find(stored.err, 'WRONGTYPE', 1, true) then return stored end
  call('DEL', key)
end
local whole, here, part, before = 0, 0, 0, 0
if counts then
  local newest
  for i = 1, n do
    local count = units[i]
    if count > 0 then
      whole, newest = whole + count, newest or i
    end
  end
  here, part = units[1], units[n + 1]
  if part > 0 then newest = newest or n + 1 end
  if newest then before = start + size * (n + 2 - newest) - now end
end
local most, steps, step, off = limit + 0.0, size, 1, now - start
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
  local i = 1
  while i <= n and room >= units[i] do
    room, i = room - units[i], i + 1
  end
  leaving, wait = units[i], size * (n + 1 - i)
end
if wait then
  local leave = (steps - math.floor(room * steps / leaving)) * step
  retry = wait + (leave < size and leave or size) - off
end
local reset_1 = reset
if retry == 0 and cost > 0 then
  local start = now - now % size
  local stop = start + size * (n + 1)
  remaining = remaining - cost
  local reset = stop - now
  if grows then
    call('SETRANGE', key, 8, struct.pack('<I4', here + cost))
  else
    local older = counts and string.sub(counts, 5) or string.rep('\0', 4 * n)
    local state = struct.pack('<dI4', start, here + cost) .. older
    call('SET', key, state, 'PXAT', string.format('%d', (stop + -stop % 1000) / 1000))
  end
  reset_1 = reset
end
return {now, remaining, reset_1, retry, before}
