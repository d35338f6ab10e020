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
-- compose.go makes scripts of the sections below: _1 and [1] stand for the limit's
-- place in its plan, and its arguments follow those of the limits before it.

--- pick calendar
local start_1, end_1 = ARGV[4] + 0, ARGV[5] + 0
if now < start_1 then
  start_1, end_1 = ARGV[3] + 0, start_1
elseif now >= end_1 then
  start_1, end_1 = end_1, ARGV[6] + 0
end

--- locals calendar
local cost_1, limit_1, window_1 = ARGV[1] + 0, ARGV[2] + 0, end_1 - start_1
local used_1, remaining_1, reset_1, retry_1, before_1 = 0, 0, 0, 0, 0
local base_1 = start_1 / 60000000 % 2^22 * 2^31

--- locals clock
local cost_1, limit_1, window_1 = ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0
local start_1, used_1, remaining_1, reset_1, retry_1, before_1 = now - now % window_1, 0, 0, 0, 0, 0
local base_1 = start_1 / window_1 % 2^22 * 2^31

--- locals first_request
local cost_1, limit_1, window_1 = ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0
local start_1, used_1, remaining_1, reset_1, retry_1, before_1 = now, 0, 0, 0, 0, 0

--- load
local stored = tonumber(call('GET', KEYS[1]))
if stored then
  local count = stored % 2147483648
  if stored - count == base_1 then used_1 = count end
end

--- load first_request
local stored = call('GET', KEYS[1])
if stored and #stored == 12 then
  local start, count = struct.unpack('<dI4', stored)
  if count > 0 and start < 2^53 and now - start < window_1 then
    if start > now then -- the clock was set back
      start = now
      local state = struct.pack('<dI4', start, count)
      call('SET', KEYS[1], state, 'PXAT', string.format('%d', math.ceil((now + window_1) / 1000)))
    end
    start_1, used_1 = math.floor(start), math.floor(count)
  end
end

--- check
local left = start_1 + window_1 - now
if used_1 > 0 then before_1 = left end
if used_1 < limit_1 then remaining_1 = limit_1 - used_1 end
reset_1 = before_1
if cost_1 > remaining_1 then retry_1 = cost_1 > limit_1 and -1 or left end

--- charge
remaining_1, reset_1 = remaining_1 - cost_1, start_1 + window_1 - now
if used_1 > 0 then
  call('INCRBY', KEYS[1], ARGV[1])
else
  local state = string.format('%d', base_1 + cost_1)
  call('SET', KEYS[1], state, 'PXAT', string.format('%d', (start_1 + window_1) / 1000))
end

--- charge first_request
remaining_1, reset_1 = remaining_1 - cost_1, start_1 + window_1 - now
local state = struct.pack('<dI4', start_1, used_1 + cost_1)
if used_1 > 0 then
  call('SET', KEYS[1], state, 'KEEPTTL')
else
  call('SET', KEYS[1], state, 'PXAT', string.format('%d', math.ceil((start_1 + window_1) / 1000)))
end

--- refund
if used_1 > 0 and charged >= start_1 and charged - start_1 < window_1 then
  if used_1 > cost_1 then
    call('DECRBY', KEYS[1], ARGV[1])
  else
    call('DEL', KEYS[1])
  end
end

--- refund first_request
-- The charge must lie in this window, not in an earlier one.
if used_1 > 0 and charged >= start_1 and charged - start_1 < window_1 then
  if used_1 > cost_1 then
    call('SET', KEYS[1], struct.pack('<dI4', start_1, used_1 - cost_1), 'KEEPTTL')
  else
    call('DEL', KEYS[1])
  end
end

--- debit
-- A key of another window, which the clock was in before it was set back, stays.
local owed = math.min(-cost_1, 2 * limit_1 - used_1)
local own = not stored or stored - stored % 2147483648 == base_1
if owed > 0 and own and charged >= start_1 and charged - start_1 < window_1 then
  if used_1 > 0 then
    call('INCRBY', KEYS[1], string.format('%d', owed))
  else
    local state = string.format('%d', base_1 + owed)
    call('SET', KEYS[1], state, 'PXAT', string.format('%d', (start_1 + window_1) / 1000))
  end
end

--- debit first_request
-- Where there is no window the charge has begun one.
local owed, at = math.min(-cost_1, 2 * limit_1 - used_1), math.min(charged, now)
if owed > 0 and used_1 == 0 and now - at < window_1 then
  local state = struct.pack('<dI4', at, owed)
  call('SET', KEYS[1], state, 'PXAT', string.format('%d', math.ceil((at + window_1) / 1000)))
elseif owed > 0 and used_1 > 0 and at >= start_1 then
  call('SET', KEYS[1], struct.pack('<dI4', start_1, used_1 + owed), 'KEEPTTL')
end
