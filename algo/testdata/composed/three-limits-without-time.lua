local call, try, KEYS, ARGV = redis.call, redis.pcall, KEYS, ARGV
local math, string, struct = math, string, struct
local clock = KEYS[#KEYS]
local ends, left = tonumber(try('GET', clock)), call('PTTL', clock)
if not ends or left <= 0 then
  call('SET', clock, '', 'PXAT', '253402300799000')
  ends = 253402300799000 - call('PTTL', clock) + 60000
  call('SET', clock, string.format('%d', ends), 'PXAT', string.format('%d', ends))
  left = call('PTTL', clock)
end
local now = (ends - left) * 1000
local units, cost_1, cost_2, cost_3 = ARGV[1]
if #units > 1 and string.find(units, ' ', 1, true) then
  cost_1, cost_2, cost_3 = string.match(units, '(%S+) (%S+) (%S+)')
  cost_1, cost_2, cost_3 = cost_1 + 0, cost_2 + 0, cost_3 + 0
else
  cost_1 = units + 0
  cost_2, cost_3 = cost_1, cost_1
end
local interval_1, tolerance_1, limit_2, size_2, n_2, limit_3, window_3 = struct.unpack('<ddddddd', ARGV[2])
limit_2, size_2, n_2, limit_3, window_3 = math.floor(limit_2), math.floor(size_2), math.floor(n_2), math.floor(limit_3), math.floor(window_3)
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
local counts_2, grows_2, here_2, before_2, remaining_2, reset_2, retry_2
do
  local size, n, key, cost, limit = size_2, n_2, KEYS[2], cost_2, limit_2
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
  counts_2, grows_2, here_2, before_2, remaining_2, reset_2, retry_2 = counts, grows, here, before, remaining, reset, retry
end
local newest_3, last_3, used_3, stale_3, before_3, remaining_3, reset_3, retry_3
do
  local key, window, cost, limit = KEYS[3], window_3, cost_3, limit_3
  local entry = try('ZRANGE', key, -1, -1, 'WITHSCORES')
  if not entry[2] then
    if entry.err then
      local stored = entry
      if stored.err and not string.find(stored.err, 'WRONGTYPE', 1, true) then return stored end
      call('DEL', key)
      entry = {}
    end
  elseif entry[2] + 0 > now then -- the clock was set back
    local from, first, units, total = string.format('%d', now), nil, 0, 0
    for _, member in ipairs(call('ZRANGEBYSCORE', key, from, '+inf')) do
      if #member == 16 then
        local time, more, all = struct.unpack('<dI4I4', member)
        first, units, total = first or time, units + more, all
      end
    end
    call('ZREMRANGEBYSCORE', key, from, '+inf')
    if first then
      call('ZADD', key, from, struct.pack('<dI4I4', first < now and first or now, units, total))
      call('PEXPIREAT', key, string.format('%d', math.ceil((now + window) / 1000)))
    end
    entry = call('ZRANGE', key, -1, -1, 'WITHSCORES')
  end
  local newest, last, used, stale, before = nil, 0, 0, false, 0
  if entry[1] and #entry[1] == 16 then
    newest, last = entry[1], entry[2] + 0
    local gone = now - window
    if last > gone then
      local _, _, total = struct.unpack('<dI4I4', newest)
      for _, member in ipairs(call('ZRANGEBYSCORE', key, '-inf', string.format('%d', gone))) do
        if #member == 16 then
          local _, units = struct.unpack('<dI4I4', member)
          total = total - units
        end
        stale = true
      end
      used, before = math.floor(total), last + window - now
    else
      newest, stale = nil, true
    end
  end
  local remaining, reset, retry = 0, before, 0
  if used < limit then remaining = limit - used end
  if cost > remaining then
    retry = -1
    local excess, after = used + cost - limit, string.format('(%d', now - window)
    local offset, count = 0, cost <= limit and 1 or 0
    while count > 0 do
      local entries = call('ZRANGEBYSCORE', key, after, '+inf', 'WITHSCORES', 'LIMIT', offset, count)
      for i = 1, #entries, 2 do
        if excess > 0 and #entries[i] == 16 then
          local _, units = struct.unpack('<dI4I4', entries[i])
          excess = excess - units
          if excess <= 0 then retry = entries[i + 1] + window - now end
        end
      end
      offset, count = offset + count, excess > 0 and entries[1] and 8 * count or 0
    end
  end
  newest_3, last_3, used_3, stale_3, before_3, remaining_3, reset_3, retry_3 = newest, last, used, stale, before, remaining, reset, retry
end
if retry_1 == 0 and retry_2 == 0 and retry_3 == 0 then
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
  if cost_2 > 0 then
    local key, cost, size, n, here, counts, grows, remaining = KEYS[2], cost_2, size_2, n_2, here_2, counts_2, grows_2, remaining_2
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
    remaining_2, reset_2 = remaining, reset
  end
  if cost_3 > 0 then
    local key, cost, window, newest, last, used, stale, remaining = KEYS[3], cost_3, window_3, newest_3, last_3, used_3, stale_3, remaining_3
    remaining = remaining - cost
    local reset = window
    if stale then
      call('ZREMRANGEBYSCORE', key, '-inf', string.format('%d', now - window))
    end
    local first, units = now, cost
    if newest then
      local cell = math.ceil(window / 2048)
      if last == now or used >= 2048 and now - now % cell <= last and call('ZCARD', key) >= 2048 then
        call('ZREM', key, newest)
        first, units = struct.unpack('<dI4I4', newest)
        units = units + cost
      end
    end
    call('ZADD', key, string.format('%d', now), struct.pack('<dI4I4', first, units, used + cost))
    call('PEXPIREAT', key, string.format('%d', math.ceil((now + window) / 1000)))
    remaining_3, reset_3 = remaining, reset
  end
end
return {now, remaining_1, reset_1, retry_1, before_1, remaining_2, reset_2, retry_2, before_2, remaining_3, reset_3, retry_3, before_3}
