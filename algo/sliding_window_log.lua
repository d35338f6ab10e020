-- Sliding window log: an entry for each unit admitted; those of the last window
-- count. Exact, for a memory and a time that grow with the limit.
--
-- KEYS[1]  the limit's key
-- ARGV[1]  cost, in units
-- ARGV[2]  nonce: no two calls of one microsecond may have the same
-- ARGV[3]  limit, units in any window
-- ARGV[4]  window, us
-- Reply    remaining (units), reset_after (us), retry_after (us; 0 admitted,
--          -1 never)
-- State    ZSET: members "time:nonce:1" to "time:nonce:<cost>", all with the
--          time, in us, as their score
-- TTL      until the last entry has left the window
--
-- `now` is Redis' time in us. Entries of the future, made before the clock was
-- set back, count.

--- constants
local limit_1, window_1 = ARGV[3] + 0, ARGV[4] + 0

--- load
local gone_1 = string.format('%d', now - window_1)
local used_1 = call('ZCOUNT', KEYS[1], '(' .. gone_1, '+inf')

--- check
local remaining_1, reset_1, retry_1 = 0, 0, 0
if used_1 + cost > limit_1 then
  retry_1 = -1
  if cost <= limit_1 then
    -- The entry that must leave has limit - cost newer ones.
    local entry = call('ZRANGE', KEYS[1], cost - limit_1 - 1, cost - limit_1 - 1, 'WITHSCORES')
    retry_1 = entry[2] + window_1 - now
  end
end

--- charge
call('ZREMRANGEBYSCORE', KEYS[1], '-inf', gone_1)
do
  local score = string.format('%d', now)
  local member = score .. ':' .. nonce .. ':'
  -- 2,000 pairs at a time: unpack fails near 8,000 values.
  for first = 1, cost, 2000 do
    local pairs, last = {}, first + 1999 < cost and first + 1999 or cost
    for i = first, last do
      pairs[#pairs + 1] = score
      pairs[#pairs + 1] = member .. i
    end
    call('ZADD', KEYS[1], unpack(pairs))
  end
  local stop = now + window_1
  call('PEXPIREAT', KEYS[1], (stop + -stop % 1000) / 1000)
end
remaining_1, reset_1 = limit_1 - used_1 - cost, window_1

--- report
if used_1 > 0 then
  reset_1 = call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')[2] + window_1 - now
end
if used_1 < limit_1 then remaining_1 = limit_1 - used_1 end

--- refund
do
  local member = string.format('%d', charged) .. ':' .. nonce .. ':'
  for first = 1, cost, 4000 do
    local members, last = {}, first + 3999 < cost and first + 3999 or cost
    for i = first, last do members[#members + 1] = member .. i end
    call('ZREM', KEYS[1], unpack(members))
  end
  local newest = call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')[2]
  if newest then
    local stop = newest + window_1
    call('PEXPIREAT', KEYS[1], (stop + -stop % 1000) / 1000)
  end
end
