-- Sliding window log: remembers each charge for one window. Exact, for a memory
-- that grows with the charges.
--
-- KEYS[1]  the limit's key
-- ARGV[1]  cost, in units; in a refund what is given back, or below 0 owed
-- ARGV[2]  limit, units in any window
-- ARGV[3]  window, us
-- Reply    remaining (units), reset_after (us), retry_after (us; 0 admitted,
--          -1 never), reset_after without this charge (us)
-- State    ZSET, an entry for each microsecond in which something was charged.
--          Score: that time, us. Member: the same as a little-endian double, the
--          units charged, and those of all entries up to this one, 32 bits each;
--          the last number means something in the newest entry alone.
--          Beyond 2048 entries a charge in the same 1/2048 of a window as the
--          newest entry is added to it and takes it along: the score is then the
--          time of the last, the member's that of the first charge. So it never
--          admits more than the definition, what it admits later is late by less
--          than 1/2048 of a window, and no call has to look at more than 4,098.
-- TTL      until the newest entry has left the window
--
-- `now` is Redis' time in us. Entries of the future, made before the clock was set
-- back, came now, and are written so by whatever call sees them. What is no entry
-- of ours counts nothing.
--
-- compose.go makes scripts of the sections below: _1 and [1] stand for the limit's
-- place in its plan, and its arguments follow those of the limits before it.

--- locals
local cost_1, limit_1, window_1 = ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0
local newest_1, last_1, used_1, stale_1 = nil, 0, 0, false
local remaining_1, reset_1, retry_1, before_1 = 0, 0, 0, 0

--- load
local entry = call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')
if entry[2] and entry[2] + 0 > now then -- the clock was set back
  local from, first, units, total = string.format('%d', now), nil, 0, 0
  for _, member in ipairs(call('ZRANGEBYSCORE', KEYS[1], from, '+inf')) do
    if #member == 16 then
      local time, more, all = struct.unpack('<dI4I4', member)
      first, units, total = first or time, units + more, all
    end
  end
  call('ZREMRANGEBYSCORE', KEYS[1], from, '+inf')
  if first then
    call('ZADD', KEYS[1], from, struct.pack('<dI4I4', first < now and first or now, units, total))
    call('PEXPIREAT', KEYS[1], string.format('%d', math.ceil((now + window_1) / 1000)))
  end
  entry = call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')
end

--- count
if entry[1] and #entry[1] == 16 then
  newest_1, last_1 = entry[1], entry[2] + 0
  local gone = now - window_1
  if last_1 > gone then
    local _, _, total = struct.unpack('<dI4I4', newest_1)
    for _, member in ipairs(call('ZRANGEBYSCORE', KEYS[1], '-inf', string.format('%d', gone))) do
      if #member == 16 then
        local _, units = struct.unpack('<dI4I4', member)
        total = total - units
      end
      stale_1 = true
    end
    used_1, before_1 = math.floor(total), last_1 + window_1 - now
  else
    newest_1, stale_1 = nil, true
  end
end

--- check
if used_1 < limit_1 then remaining_1 = limit_1 - used_1 end
reset_1 = before_1
if cost_1 > remaining_1 then
  retry_1 = -1
  -- Of the oldest entries so many must leave as hold what is too much.
  local excess, after = used_1 + cost_1 - limit_1, string.format('(%d', now - window_1)
  local offset, count = 0, cost_1 <= limit_1 and 1 or 0
  while count > 0 do
    local entries = call('ZRANGEBYSCORE', KEYS[1], after, '+inf', 'WITHSCORES', 'LIMIT', offset, count)
    for i = 1, #entries, 2 do
      if excess > 0 and #entries[i] == 16 then
        local _, units = struct.unpack('<dI4I4', entries[i])
        excess = excess - units
        if excess <= 0 then retry_1 = entries[i + 1] + window_1 - now end
      end
    end
    offset, count = offset + count, excess > 0 and entries[1] and 8 * count or 0
  end
end

--- charge
remaining_1, reset_1 = remaining_1 - cost_1, window_1
if stale_1 then
  call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%d', now - window_1))
end
local first, units = now, cost_1
if newest_1 then
  local cell = math.ceil(window_1 / 2048)
  if last_1 == now or used_1 >= 2048 and now - now % cell <= last_1 and call('ZCARD', KEYS[1]) >= 2048 then
    call('ZREM', KEYS[1], newest_1)
    first, units = struct.unpack('<dI4I4', newest_1)
    units = units + cost_1
  end
end
call('ZADD', KEYS[1], string.format('%d', now), struct.pack('<dI4I4', first, units, used_1 + cost_1))
call('PEXPIREAT', KEYS[1], string.format('%d', math.ceil((now + window_1) / 1000)))

--- refund
local newest, at = entry[1], string.format('%d', charged)
entry = call('ZRANGEBYSCORE', KEYS[1], at, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
if entry[1] and #entry[1] == 16 and #newest == 16 then
  local first, units = struct.unpack('<dI4I4', entry[1])
  if first <= charged then
    local _, _, total = struct.unpack('<dI4I4', newest)
    total = total - (units > cost_1 and cost_1 or units)
    call('ZREM', KEYS[1], entry[1])
    if units > cost_1 then
      call('ZADD', KEYS[1], entry[2], struct.pack('<dI4I4', first, units - cost_1, total))
    end
    -- The newest entry, perhaps another one now, has the new total.
    entry = call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')
    if entry[1] and #entry[1] == 16 then
      first, units = struct.unpack('<dI4I4', entry[1])
      call('ZREM', KEYS[1], entry[1])
      call('ZADD', KEYS[1], entry[2], struct.pack('<dI4I4', first, units, total))
      call('PEXPIREAT', KEYS[1], string.format('%d', math.ceil((entry[2] + window_1) / 1000)))
    end
  end
end

--- debit
-- The entry that holds the units of the charge takes what is owed, or else one of
-- its own, but of a log that is full the next newer one.
local owed, time = math.min(-cost_1, 2 * limit_1 - used_1), math.min(charged, now)
if owed > 0 and time > now - window_1 then
  if stale_1 then
    call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%d', now - window_1))
  end
  local score = string.format('%d', time)
  local first, units, total = time, owed, used_1 + owed
  local near = call('ZRANGEBYSCORE', KEYS[1], score, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  if near[1] and #near[1] == 16 then
    local from, more = struct.unpack('<dI4I4', near[1])
    if from <= time or call('ZCARD', KEYS[1]) >= 2048 then
      call('ZREM', KEYS[1], near[1])
      score, first, units = near[2], math.min(from, time), more + owed
    end
  end
  call('ZADD', KEYS[1], score, struct.pack('<dI4I4', first, units, total))
  -- The newest entry, perhaps another one, has the new total.
  entry = call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')
  if #entry[1] == 16 then
    first, units = struct.unpack('<dI4I4', entry[1])
    call('ZREM', KEYS[1], entry[1])
    call('ZADD', KEYS[1], entry[2], struct.pack('<dI4I4', first, units, total))
  end
  call('PEXPIREAT', KEYS[1], string.format('%d', math.ceil((entry[2] + window_1) / 1000)))
end
