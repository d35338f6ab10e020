-- Fixed window: a counter for each window, which starts at a multiple of its
-- length since the Unix epoch (clock) or with its first request (first_request).
--
-- KEYS[1]  the limit's key
-- ARGV[1]  cost, in units
-- ARGV[3]  limit, units in a window
-- ARGV[4]  window, us
-- Reply    remaining (units), reset_after (us), retry_after (us; 0 admitted,
--          -1 never)
-- State    STRING. clock: the number (window's index mod 2^22) * 2^30 + count,
--          so that a count is never taken for the next window's, however late
--          Redis expires it; first_request: "count:start", the start in us.
--          Neither reads the other's state, nor garbage: it counts as no key.
-- TTL      until the window ends
--
-- `now` is Redis' time in us.

--- constants
local limit_1, window_1 = ARGV[3] + 0, ARGV[4] + 0

--- load clock
local used_1, start_1 = 0, now - now % window_1
local base_1 = start_1 / window_1 % 4194304 * 1073741824
do
  local stored = tonumber(call('GET', KEYS[1]))
  if stored then
    local count = stored % 1073741824
    if stored - count == base_1 then used_1 = count end
  end
end

--- load first_request
local used_1, start_1 = 0, now
do
  local stored = call('GET', KEYS[1])
  if stored then
    local count, start = string.match(stored, '^(%d+):(%d+)$')
    -- A start in the future: the clock was set back.
    if count and now - start < window_1 and start - now < window_1 then
      used_1, start_1 = count + 0, start + 0
    end
  end
end

--- check
local left_1 = start_1 + window_1 - now
local remaining_1, reset_1, retry_1 = 0, 0, 0
if used_1 + cost > limit_1 then
  retry_1 = cost > limit_1 and -1 or left_1
end

--- charge clock
used_1 = used_1 + cost
call('SET', KEYS[1], base_1 + used_1, 'PXAT', (now + left_1) / 1000)
remaining_1, reset_1 = limit_1 - used_1, left_1

--- charge first_request
used_1 = used_1 + cost
do
  local stop = now + left_1
  call('SET', KEYS[1], string.format('%.0f:%.0f', used_1, start_1), 'PXAT', (stop + -stop % 1000) / 1000)
end
remaining_1, reset_1 = limit_1 - used_1, left_1

--- report
if used_1 > 0 then reset_1 = left_1 end
if used_1 < limit_1 then remaining_1 = limit_1 - used_1 end

--- refund clock
do
  local start = now - now % window_1
  local base = start / window_1 % 4194304 * 1073741824
  local stored = tonumber(call('GET', KEYS[1]))
  if stored and charged - charged % window_1 == start then
    local count = stored % 1073741824
    if stored - count == base then
      if count > cost then
        call('SET', KEYS[1], stored - cost, 'KEEPTTL')
      else
        call('DEL', KEYS[1])
      end
    end
  end
end

--- refund first_request
do
  local stored = call('GET', KEYS[1])
  local count, start
  if stored then count, start = string.match(stored, '^(%d+):(%d+)$') end
  if count and now - start < window_1 and start - now < window_1
    and charged - start < window_1 and start - charged < window_1 then
    if count - cost > 0 then
      call('SET', KEYS[1], string.format('%.0f:%s', count - cost, start), 'KEEPTTL')
    else
      call('DEL', KEYS[1])
    end
  end
end
