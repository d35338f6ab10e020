local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local cost_1, size_1, n_1 = ARGV[1] + 0, ARGV[3] + 0, ARGV[4] + 0
local start_1, here_1, counts_1, grows_1 = now - now % size_1, 0
local remaining_1, reset_1, retry_1, before_1 = 0, 0, 0, 0
do
  local stored, units = call('GET', KEYS[1])
  if stored and #stored == 4 * n_1 + 12 then
    local layout, newest = '<' .. string.rep('I4', n_1 + 1), struct.unpack('<d', stored)
    if newest > start_1 and newest < 2^53 and newest % size_1 == 0 then -- the clock was set back
      units = {struct.unpack(layout, stored, 9)}
      local ahead, count = (newest - start_1) / size_1, 0
      for i = 1, math.min(ahead, n_1) + 1 do count = count + units[i] end
      stored = struct.pack('<dI4', start_1, math.min(count, 4294967295))
        .. string.sub(stored, 13 + 4 * ahead) .. string.rep('\0', 4 * math.min(ahead, n_1))
      newest = start_1
      local stop = math.ceil((start_1 + size_1 * (n_1 + 1)) / 1000)
      call('SET', KEYS[1], stored, 'PXAT', string.format('%d', stop))
    end
    local behind = (start_1 - newest) / size_1
    if behind % 1 == 0 and behind >= 0 and behind <= n_1 then
      grows_1 = behind == 0
      counts_1 = string.rep('\0', 4 * behind) .. string.sub(stored, 9, 4 * (n_1 - behind) + 12)
      units = {struct.unpack(layout, counts_1)}
    end
  end
  local whole, part_1 = 0, 0
  if counts_1 then
    local newest
    for i = 1, n_1 do
      local count = units[i]
      if count > 0 then
        whole, newest = whole + count, newest or i
      end
    end
    here_1, part_1 = units[1], units[n_1 + 1]
    if part_1 > 0 then newest = newest or n_1 + 1 end
    if newest then before_1 = start_1 + size_1 * (n_1 + 2 - newest) - now end
  end
  local limit, steps, step, off = ARGV[2] + 0.0, size_1, 1, now - start_1
  while limit * steps > 2^52 do
    step = step + step
    steps = math.ceil(size_1 / step)
  end
  local free = (limit - whole) * steps - part_1 * (steps - math.floor(off / step))
  if free > 0 then remaining_1 = math.floor(free / steps) end
  reset_1 = before_1
  local room, leaving, wait = limit - cost_1
  if cost_1 > remaining_1 then retry_1 = -1 end
  if retry_1 < 0 and room >= 0 then
    local i = 1
    while i <= n_1 and room >= units[i] do
      room, i = room - units[i], i + 1
    end
    leaving, wait = units[i], size_1 * (n_1 + 1 - i)
  end
  if wait then
    local leave = (steps - math.floor(room * steps / leaving)) * step
    retry_1 = wait + (leave < size_1 and leave or size_1) - off
  end
end
if retry_1 == 0 then
  if cost_1 > 0 then
    local stop = start_1 + size_1 * (n_1 + 1)
    remaining_1, reset_1 = remaining_1 - cost_1, stop - now
    if grows_1 then
      call('SETRANGE', KEYS[1], 8, struct.pack('<I4', here_1 + cost_1))
    else
      local older = counts_1 and string.sub(counts_1, 5) or string.rep('\0', 4 * n_1)
      local state = struct.pack('<dI4', start_1, here_1 + cost_1) .. older
      call('SET', KEYS[1], state, 'PXAT', string.format('%d', math.ceil(stop / 1000)))
    end
  end
end
return {now, remaining_1, reset_1, retry_1, before_1}
