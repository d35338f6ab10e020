-- Fixed window: a counter for each window, which starts at a multiple of its
-- length since the Unix epoch (clock), with its first request (first_request), or
-- with a day, week, month or year of a time zone (calendar).
--
-- KEYS[1]  the limit's key
-- ARGV[1]  cost, in units; in a refund what is given back, or below 0 owed
-- ARGV[2]  limit, units in a window
-- ARGV[3]  window, us; calendar: ARGV[3] to ARGV[6], when three windows begin, one
--          after another, and when the last ends (us, in whole minutes)
-- Reply    remaining (units), reset_after (us), retry_after (us; 0 admitted,
--          -1 never), reset_after without this charge (us); calendar: when the
--          window begins (us). If now is in none of the three, nothing but now.
-- State    STRING. clock: the number (window's index mod 2^22) * 2^31 + count,
--          calendar: the same with the minute in which the window begins, so that a count is never taken for the next window's, however late
--          Redis expires it. first_request: the start (us, a little-endian
--          double) and the count (32 bits), as no number holds both. Garbage
--          counts as no key.
-- TTL      until the window ends
--
-- `now` is Redis' time in us. A first request of the future, made before the clock
-- was set back, came now, and is written so by whatever call sees it.
--
-- compose.go makes scripts of the functions below: see there how it binds what they
-- take, and keeps what they return.

local function pick_calendar(first, second, third, last)
  local start, stop = second + 0, third + 0
  if now < start then
    start, stop = first + 0, start
  elseif now >= stop then
    start, stop = stop, last + 0
  end
  return start, stop
end

local function other_time_calendar(start, stop)
  -- So that it is asked again with others.
  if now < start or now >= stop then return {now} end
end

local function long_ago_calendar(start, stop)
  -- A refund gives nothing back.
  if now < start or now >= stop then start, stop = 0, 0 end
  return start, stop
end

local function begin_clock(window)
  local start = now - now % window
  local stop, base = start + window, start / window % 2^22 * 2^31
  return start, stop, base
end

local function begin_calendar(start)
  local base = start / 60000000 % 2^22 * 2^31
  return base
end

local function read(key, base)
  local used, stored = 0, try('GET', key)
  local number = tonumber(stored)
  if number then
    local count = number % 2147483648
    if number - count == base then
      used = count
    elseif #stored > 16 then
      number = nil
      foreign(key, stored)
    end
  elseif stored then
    foreign(key, stored)
  end
  return used, number
end

local function read_first_request(key, window)
  local start, used, stored = now, 0, try('GET', key)
  if stored and #stored == 12 then
    local begin, count = struct.unpack('<dI4', stored)
    if count > 0 and begin < 2^53 and now - begin < window then
      if begin > now then -- the clock was set back
        begin = now
        local state = struct.pack('<dI4', begin, count)
        call('SET', key, state, 'PXAT', string.format('%d', math.ceil((now + window) / 1000)))
      end
      start, used = math.floor(begin), math.floor(count)
    end
  elseif stored then
    foreign(key, stored)
  end
  local stop = start + window
  return start, stop, used
end

local function check(cost, limit, stop, used)
  local remaining, reset, retry, before, left = 0, 0, 0, 0, stop - now
  if used > 0 then before, reset = left, left end
  if used < limit then remaining = limit - used end
  if cost > remaining then retry = cost > limit and -1 or left end
  return remaining, reset, retry, before
end

local function charge(key, cost, units, base, stop, used, remaining)
  remaining = remaining - cost
  local reset = stop - now
  local number = base + used + cost
  if used == 0 or try('INCRBY', key, units) ~= number then -- no integer to Redis: 0x1
    local state = string.format('%d', number)
    call('SET', key, state, 'PXAT', string.format('%d', stop / 1000))
  end
  return remaining, reset
end

local function charge_first_request(key, cost, start, stop, used, remaining)
  remaining = remaining - cost
  local reset = stop - now
  local state = struct.pack('<dI4', start, used + cost)
  if used > 0 then
    call('SET', key, state, 'KEEPTTL')
  else
    call('SET', key, state, 'PXAT', string.format('%d', math.ceil(stop / 1000)))
  end
  return remaining, reset
end

local function refund(key, cost, units, base, start, stop, used)
  if used > 0 and charged >= start and charged < stop then
    if used <= cost then
      call('DEL', key)
    elseif type(try('DECRBY', key, units)) == 'table' then
      call('SET', key, string.format('%d', base + used - cost), 'KEEPTTL')
    end
  end
end

local function refund_first_request(key, cost, start, stop, used)
  -- The charge must lie in this window, not in an earlier one.
  if used > 0 and charged >= start and charged < stop then
    if used > cost then
      call('SET', key, struct.pack('<dI4', start, used - cost), 'KEEPTTL')
    else
      call('DEL', key)
    end
  end
end

local function debit(key, cost, limit, base, start, stop, used, number)
  -- A key of another window, which the clock was in before it was set back, stays.
  local owed = math.min(-cost, 2 * limit - used)
  local own = not number or number - number % 2147483648 == base
  if owed > 0 and own and charged >= start and charged < stop then
    local units = string.format('%d', owed)
    if used == 0 or type(try('INCRBY', key, units)) == 'table' then
      local state = string.format('%d', base + used + owed)
      call('SET', key, state, 'PXAT', string.format('%d', stop / 1000))
    end
  end
end

local function debit_first_request(key, cost, limit, window, start, used)
  -- Where there is no window the charge has begun one.
  local owed, at = math.min(-cost, 2 * limit - used), math.min(charged, now)
  if owed > 0 and used == 0 and now - at < window then
    local state = struct.pack('<dI4', at, owed)
    call('SET', key, state, 'PXAT', string.format('%d', math.ceil((at + window) / 1000)))
  elseif owed > 0 and used > 0 and at >= start then
    call('SET', key, struct.pack('<dI4', start, used + owed), 'KEEPTTL')
  end
end
