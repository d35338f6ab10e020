local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
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
local cost_2, size_2, n_2 = ARGV[4] + 0, ARGV[6] + 0, ARGV[7] + 0
local start_2, here_2, counts_2, grows_2 = now - now % size_2, 0
local remaining_2, reset_2, retry_2, before_2 = 0, 0, 0, 0
do
  local stored, units = call('GET', KEYS[2])
  if stored and #stored == 4 * n_2 + 12 then
    local layout, newest = '<' .. string.rep('I4', n_2 + 1), struct.unpack('<d', stored)
    if newest > start_2 and newest < 2^53 and newest % size_2 == 0 then -- the clock was set back
      units = {struct.unpack(layout, stored, 9)}
      local ahead, count = (newest - start_2) / size_2, 0
      for i = 1, math.min(ahead, n_2) + 1 do count = count + units[i] end
      stored = struct.pack('<dI4', start_2, math.min(count, 4294967295))
        .. string.sub(stored, 13 + 4 * ahead) .. string.rep('\0', 4 * math.min(ahead, n_2))
      newest = start_2
      local stop = math.ceil((start_2 + size_2 * (n_2 + 1)) / 1000)
      call('SET', KEYS[2], stored, 'PXAT', string.format('%d', stop))
    end
    local behind = (start_2 - newest) / size_2
    if behind % 1 == 0 and behind >= 0 and behind <= n_2 then
      grows_2 = behind == 0
      counts_2 = string.rep('\0', 4 * behind) .. string.sub(stored, 9, 4 * (n_2 - behind) + 12)
      units = {struct.unpack(layout, counts_2)}
    end
  end
  local whole, part_2 = 0, 0
  if counts_2 then
    local newest
    for i = 1, n_2 do
      local count = units[i]
      if count > 0 then
        whole, newest = whole + count, newest or i
      end
    end
    here_2, part_2 = units[1], units[n_2 + 1]
    if part_2 > 0 then newest = newest or n_2 + 1 end
    if newest then before_2 = start_2 + size_2 * (n_2 + 2 - newest) - now end
  end
  local limit, steps, step, off = ARGV[5] + 0.0, size_2, 1, now - start_2
  while limit * steps > 2^52 do
    step = step + step
    steps = math.ceil(size_2 / step)
  end
  local free = (limit - whole) * steps - part_2 * (steps - math.floor(off / step))
  if free > 0 then remaining_2 = math.floor(free / steps) end
  reset_2 = before_2
  local room, leaving, wait = limit - cost_2
  if cost_2 > remaining_2 then retry_2 = -1 end
  if retry_2 < 0 and room >= 0 then
    local i = 1
    while i <= n_2 and room >= units[i] do
      room, i = room - units[i], i + 1
    end
    leaving, wait = units[i], size_2 * (n_2 + 1 - i)
  end
  if wait then
    local leave = (steps - math.floor(room * steps / leaving)) * step
    retry_2 = wait + (leave < size_2 and leave or size_2) - off
  end
end
local cost_3, limit_3, window_3 = ARGV[8] + 0, ARGV[9] + 0, ARGV[10] + 0
local newest_3, last_3, used_3, stale_3 = nil, 0, 0, false
local remaining_3, reset_3, retry_3, before_3 = 0, 0, 0, 0
do
  local entry = call('ZRANGE', KEYS[3], -1, -1, 'WITHSCORES')
  if entry[2] and entry[2] + 0 > now then -- the clock was set back
    local from, first, units, total = string.format('%d', now), nil, 0, 0
    for _, member in ipairs(call('ZRANGEBYSCORE', KEYS[3], from, '+inf')) do
      if #member == 16 then
        local time, more, all = struct.unpack('<dI4I4', member)
        first, units, total = first or time, units + more, all
      end
    end
    call('ZREMRANGEBYSCORE', KEYS[3], from, '+inf')
    if first then
      call('ZADD', KEYS[3], from, struct.pack('<dI4I4', first < now and first or now, units, total))
      call('PEXPIREAT', KEYS[3], string.format('%d', math.ceil((now + window_3) / 1000)))
    end
    entry = call('ZRANGE', KEYS[3], -1, -1, 'WITHSCORES')
  end
  if entry[1] and #entry[1] == 16 then
    newest_3, last_3 = entry[1], entry[2] + 0
    local gone = now - window_3
    if last_3 > gone then
      local _, _, total = struct.unpack('<dI4I4', newest_3)
      for _, member in ipairs(call('ZRANGEBYSCORE', KEYS[3], '-inf', string.format('%d', gone))) do
        if #member == 16 then
          local _, units = struct.unpack('<dI4I4', member)
          total = total - units
        end
        stale_3 = true
      end
      used_3, before_3 = math.floor(total), last_3 + window_3 - now
    else
      newest_3, stale_3 = nil, true
    end
  end
  if used_3 < limit_3 then remaining_3 = limit_3 - used_3 end
  reset_3 = before_3
  if cost_3 > remaining_3 then
    retry_3 = -1
    local excess, after = used_3 + cost_3 - limit_3, string.format('(%d', now - window_3)
    local offset, count = 0, cost_3 <= limit_3 and 1 or 0
    while count > 0 do
      local entries = call('ZRANGEBYSCORE', KEYS[3], after, '+inf', 'WITHSCORES', 'LIMIT', offset, count)
      for i = 1, #entries, 2 do
        if excess > 0 and #entries[i] == 16 then
          local _, units = struct.unpack('<dI4I4', entries[i])
          excess = excess - units
          if excess <= 0 then retry_3 = entries[i + 1] + window_3 - now end
        end
      end
      offset, count = offset + count, excess > 0 and entries[1] and 8 * count or 0
    end
  end
end
if retry_1 == 0 and retry_2 == 0 and retry_3 == 0 then
  if cost_1 > 0 then
    lead_1 = lead_1 + cost_1 * interval_1
    remaining_1, reset_1 = remaining_1 - cost_1, math.ceil(lead_1)
    local state = struct.pack('<ddd', lead_1, interval_1, now)
    call('SET', KEYS[1], state, 'PXAT', string.format('%d', math.ceil((now + reset_1) / 1000)))
  end
  if cost_2 > 0 then
    local stop = start_2 + size_2 * (n_2 + 1)
    remaining_2, reset_2 = remaining_2 - cost_2, stop - now
    if grows_2 then
      call('SETRANGE', KEYS[2], 8, struct.pack('<I4', here_2 + cost_2))
    else
      local older = counts_2 and string.sub(counts_2, 5) or string.rep('\0', 4 * n_2)
      local state = struct.pack('<dI4', start_2, here_2 + cost_2) .. older
      call('SET', KEYS[2], state, 'PXAT', string.format('%d', math.ceil(stop / 1000)))
    end
  end
  if cost_3 > 0 then
    remaining_3, reset_3 = remaining_3 - cost_3, window_3
    if stale_3 then
      call('ZREMRANGEBYSCORE', KEYS[3], '-inf', string.format('%d', now - window_3))
    end
    local first, units = now, cost_3
    if newest_3 then
      local cell = math.ceil(window_3 / 2048)
      if last_3 == now or used_3 >= 2048 and now - now % cell <= last_3 and call('ZCARD', KEYS[3]) >= 2048 then
        call('ZREM', KEYS[3], newest_3)
        first, units = struct.unpack('<dI4I4', newest_3)
        units = units + cost_3
      end
    end
    call('ZADD', KEYS[3], string.format('%d', now), struct.pack('<dI4I4', first, units, used_3 + cost_3))
    call('PEXPIREAT', KEYS[3], string.format('%d', math.ceil((now + window_3) / 1000)))
  end
end
return {now, remaining_1, reset_1, retry_1, before_1, remaining_2, reset_2, retry_2, before_2, remaining_3, reset_3, retry_3, before_3}
