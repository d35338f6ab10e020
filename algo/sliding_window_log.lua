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
-- compose.go makes scripts of the functions below: see there how it binds what they
-- take, and keeps what they return.

local function read(key, window)
  local entry = try('ZRANGE', key, -1, -1, 'WITHSCORES')
  if not entry[2] then
    if entry.err then
      local stored = entry
      foreign(key, stored)
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
  return entry
end

local function count(key, window, entry)
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
  return newest, last, used, stale, before
end

local function check(key, cost, limit, window, used, before)
  local remaining, reset, retry = 0, before, 0
  if used < limit then remaining = limit - used end
  if cost > remaining then
    retry = -1
    -- Of the oldest entries so many must leave as hold what is too much.
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
  return remaining, reset, retry
end

local function charge(key, cost, window, newest, last, used, stale, remaining)
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
  return remaining, reset
end

local function refund(key, cost, window, entry)
  local newest, at = entry[1], string.format('%d', charged)
  entry = call('ZRANGEBYSCORE', key, at, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  if entry[1] and #entry[1] == 16 and #newest == 16 then
    local first, units = struct.unpack('<dI4I4', entry[1])
    if first <= charged then
      local _, _, total = struct.unpack('<dI4I4', newest)
      total = total - (units > cost and cost or units)
      call('ZREM', key, entry[1])
      if units > cost then
        call('ZADD', key, entry[2], struct.pack('<dI4I4', first, units - cost, total))
      end
      -- The newest entry, perhaps another one now, has the new total.
      entry = call('ZRANGE', key, -1, -1, 'WITHSCORES')
      if entry[1] and #entry[1] == 16 then
        first, units = struct.unpack('<dI4I4', entry[1])
        call('ZREM', key, entry[1])
        call('ZADD', key, entry[2], struct.pack('<dI4I4', first, units, total))
        call('PEXPIREAT', key, string.format('%d', math.ceil((entry[2] + window) / 1000)))
      end
    end
  end
end

local function debit(key, cost, limit, window, entry, used, stale)
  -- The entry that holds the units of the charge takes what is owed, or else one of
  -- its own, but of a log that is full the next newer one.
  local owed, time = math.min(-cost, 2 * limit - used), math.min(charged, now)
  if owed > 0 and time > now - window then
    if stale then
      call('ZREMRANGEBYSCORE', key, '-inf', string.format('%d', now - window))
    end
    local score = string.format('%d', time)
    local first, units, total = time, owed, used + owed
    local near = call('ZRANGEBYSCORE', key, score, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
    if near[1] and #near[1] == 16 then
      local from, more = struct.unpack('<dI4I4', near[1])
      if from <= time or call('ZCARD', key) >= 2048 then
        call('ZREM', key, near[1])
        score, first, units = near[2], math.min(from, time), more + owed
      end
    end
    call('ZADD', key, score, struct.pack('<dI4I4', first, units, total))
    -- The newest entry, perhaps another one, has the new total.
    entry = call('ZRANGE', key, -1, -1, 'WITHSCORES')
    if #entry[1] == 16 then
      first, units = struct.unpack('<dI4I4', entry[1])
      call('ZREM', key, entry[1])
      call('ZADD', key, entry[2], struct.pack('<dI4I4', first, units, total))
    end
    call('PEXPIREAT', key, string.format('%d', math.ceil((entry[2] + window) / 1000)))
  end
end
