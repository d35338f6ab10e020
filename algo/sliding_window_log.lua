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
--
-- compose.go makes scripts of the sections below: _1 and [1] stand for the limit's
-- place in its policy; in a refund the constants come one argument later.

--- locals
local limit_1, window_1 = ARGV[3] + 0, ARGV[4] + 0
local used_1, remaining_1, reset_1, retry_1 = 0, 0, 0, 0

--- check
used_1 = call('ZCOUNT', KEYS[1], string.format('(%d', now - window_1), '+inf')
if used_1 + cost > limit_1 then
  retry_1 = -1
  if cost <= limit_1 then
    -- The entry that must leave has limit - cost newer ones.
    local rank = cost - limit_1 - 1
    retry_1 = call('ZRANGE', KEYS[1], rank, rank, 'WITHSCORES')[2] + window_1 - now
  end
end

--- charge
remaining_1, reset_1 = limit_1 - used_1 - cost, window_1
call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%d', now - window_1))
local score = string.format('%d', now)
local member = score .. ':' .. nonce .. ':'
-- 2,000 entries at a time: unpack fails near 8,000 values.
for first = 1, cost, 2000 do
  local entries, n = {}, 0
  for i = first, first + 1999 < cost and first + 1999 or cost do
    entries[n + 1], entries[n + 2], n = score, member .. i, n + 2
  end
  call('ZADD', KEYS[1], unpack(entries, 1, n))
end
call('PEXPIREAT', KEYS[1], string.format('%d', (now + window_1 + 999) / 1000))

--- report
if used_1 > 0 then
  reset_1 = call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')[2] + window_1 - now
end
if used_1 < limit_1 then remaining_1 = limit_1 - used_1 end

--- refund
local member = string.format('%d:', charged) .. nonce .. ':'
for first = 1, cost, 4000 do
  local members, n = {}, 0
  for i = first, first + 3999 < cost and first + 3999 or cost do
    members[n + 1], n = member .. i, n + 1
  end
  call('ZREM', KEYS[1], unpack(members, 1, n))
end
local newest = call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')[2]
if newest then
  call('PEXPIREAT', KEYS[1], string.format('%d', (newest + window_1 + 999) / 1000))
end
