-- Fixed window: a counter for each window, which starts at a multiple of its
-- length since the Unix epoch (clock) or with its first request (first_request).
--
-- KEYS[1]  the limit's key
-- ARGV[1]  cost, in units
-- ARGV[2]  not used
-- ARGV[3]  limit, units in a window
-- ARGV[4]  window, us
-- Reply    remaining (units), reset_after (us), retry_after (us; 0 admitted,
--          -1 never)
-- State    STRING. clock: the number (window's index mod 2^22) * 2^30 + count,
--          so that a count is never taken for the next window's, however late
--          Redis expires it; first_request: the start (us) and the count, two
--          little-endian doubles (struct.pack), as no number holds both.
--          The other's state, and garbage, count as no key.
-- TTL      until the window ends
--
-- `now` is Redis' time in us.
--
-- compose.go makes scripts of the sections below: _1 and [1] stand for the limit's
-- place in its policy; in a refund the constants come one argument later.

--- locals clock
local limit_1, window_1 = ARGV[3] + 0, ARGV[4] + 0
local start_1, used_1, remaining_1, reset_1, retry_1 = now - now % window_1, 0, 0, 0, 0
local base_1 = start_1 / window_1 % 2^22 * 2^30

--- locals first_request
local limit_1, window_1 = ARGV[3] + 0, ARGV[4] + 0
local start_1, used_1, remaining_1, reset_1, retry_1 = now, 0, 0, 0, 0

--- load clock
local stored = tonumber(call('GET', KEYS[1]))
if stored then
  local count = stored % 2^30
  if stored - count == base_1 then used_1 = count end
end

--- load first_request
local stored = call('GET', KEYS[1])
if stored and #stored == 16 then
  local start, count = struct.unpack('<dd', stored)
  -- A start in the future was made before the clock was set back.
  if count > 0 and now - start < window_1 and start - now < window_1 then
    start_1, used_1 = start, count
  end
end

--- check
if used_1 + cost > limit_1 then
  retry_1 = cost > limit_1 and -1 or start_1 + window_1 - now
end

--- charge clock
remaining_1, reset_1 = limit_1 - used_1 - cost, start_1 + window_1 - now
if used_1 > 0 then
  call('INCRBY', KEYS[1], ARGV[1])
else
  call('SET', KEYS[1], base_1 + cost, 'PXAT', string.format('%d', (start_1 + window_1) / 1000))
end

--- charge first_request
remaining_1, reset_1 = limit_1 - used_1 - cost, start_1 + window_1 - now
local state = struct.pack('<dd', start_1, used_1 + cost)
if used_1 > 0 then
  call('SET', KEYS[1], state, 'KEEPTTL')
else
  call('SET', KEYS[1], state, 'PXAT', string.format('%d', (start_1 + window_1 + 999) / 1000))
end

--- report
if used_1 > 0 then reset_1 = start_1 + window_1 - now end
if used_1 < limit_1 then remaining_1 = limit_1 - used_1 end

--- refund clock
if used_1 > 0 and charged - charged % window_1 == start_1 then
  if used_1 > cost then
    call('DECRBY', KEYS[1], ARGV[1])
  else
    call('DEL', KEYS[1])
  end
end

--- refund first_request
if used_1 > 0 and charged - start_1 < window_1 and start_1 - charged < window_1 then
  if used_1 > cost then
    call('SET', KEYS[1], struct.pack('<dd', start_1, used_1 - cost), 'KEEPTTL')
  else
    call('DEL', KEYS[1])
  end
end
