local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local cost_1, size_1 = ARGV[1] + 0, ARGV[3] + 0
local start_1, here_1, part_1, grows_1 = now - now % size_1, 0, 0
local remaining_1, reset_1, retry_1, before_1 = 0, 0, 0, 0
do
  local stored = call('GET', KEYS[1])
  if stored and #stored == 16 then
    local newest, count, before = struct.unpack('<dI4I4', stored)
    if newest > start_1 and newest < 2^53 and newest % size_1 == 0 then -- the clock was set back
      newest, count, before = start_1, math.min(count + before, 4294967295), 0
      local stop = math.ceil((start_1 + size_1 + size_1) / 1000)
      call('SET', KEYS[1], struct.pack('<dI4I4', newest, count, 0), 'PXAT', string.format('%d', stop))
    end
    if newest == start_1 then
      here_1, part_1, grows_1 = count, before, true
    elseif newest == start_1 - size_1 then
      part_1 = count
    end
  end
  if here_1 > 0 then
    before_1 = start_1 + size_1 + size_1 - now
  elseif part_1 > 0 then
    before_1 = start_1 + size_1 - now
  end
  local whole = here_1
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
    if room >= here_1 then
      room, leaving, wait = room - here_1, part_1, 0
    else
      leaving, wait = here_1, size_1
    end
  end
  if wait then
    local leave = (steps - math.floor(room * steps / leaving)) * step
    retry_1 = wait + (leave < size_1 and leave or size_1) - off
  end
end
if retry_1 == 0 then
  if cost_1 > 0 then
    local stop = start_1 + size_1 + size_1
    remaining_1, reset_1 = remaining_1 - cost_1, stop - now
    if grows_1 then
      call('SETRANGE', KEYS[1], 8, struct.pack('<I4', here_1 + cost_1))
    else
      local state = struct.pack('<dI4I4', start_1, here_1 + cost_1, part_1)
      call('SET', KEYS[1], state, 'PXAT', string.format('%d', math.ceil(stop / 1000)))
    end
  end
end
return {now, remaining_1, reset_1, retry_1, before_1}
