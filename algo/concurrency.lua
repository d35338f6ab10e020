-- Concurrency: at most so many slots are held at once. A request takes slots, holds
-- them while it is under way, and gives them back when it ends.
--
-- KEYS[1]  the limit's key
-- ARGV[1]  cost, in slots; in a refund those that are given back
-- ARGV[2]  nonce, decimal, no two requests' the same
-- ARGV[3]  limit, slots
-- ARGV[4]  ttl, us: after so long without a renewal an entry has ended by itself
-- Reply    remaining (slots), retry_after (us; 0 admitted, -1 never)
-- Refund   replies 1 if there was nothing to give back: it had ended by itself, or was
--          given back before; else 0
-- State    ZSET, an entry for each request. Score: its end, us. Member: its nonce and
--          its slots, "nonce:slots". So that the sum of all slots need not be counted,
--          the empty member, if there is one, has a score of minus the slots that
--          entries have beyond their first. A refund removes its own entry and no
--          other: it never gives credit, and twice does no harm.
-- TTL      until the last entry ends, or a little longer where that was given back
--
-- `now` is Redis' time in us. Entries that end more than an hour from now were made
-- before the clock was set back: they end in an hour. Whoever still holds one renews
-- it by then. Where the entries that end within a ttl are as many as the limit has
-- slots, that decides, and nobody looks at what else there is.
--
-- compose.go makes scripts of the sections below: _1 and [1] stand for the limit's
-- place in its plan, and its arguments follow those of the limits before it.

--- locals
local cost_1, limit_1, ttl_1 = ARGV[1] + 0, ARGV[3] + 0, ARGV[4] + 0
local last_1, extra_1, gone_1, stop_1 = 0, 0, 0
local remaining_1, retry_1 = 0, 0

--- count
stop_1 = string.format('%d', now + ttl_1)
local plain = call('ZCOUNT', KEYS[1], string.format('(%d', now), stop_1)
local used = plain < limit_1 and call('ZCARD', KEYS[1]) or plain
if plain < used then
  local first = call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
  if first[1] == '' and first[2] + 0 < 0 then -- some have several slots
    used, extra_1 = used - 1, 0 - first[2]
  end
end
if plain < used then -- some may have ended
  local till, extra = string.format('%d', now), extra_1
  for _, member in ipairs(extra > 0 and call('ZRANGEBYSCORE', KEYS[1], 1, till) or {}) do
    extra = extra + 1 - (tonumber(string.match(member, ':(%d+)$')) or 1)
  end
  used = used - call('ZREMRANGEBYSCORE', KEYS[1], 1, till)
  if extra < extra_1 then
    call('ZADD', KEYS[1], 0 - extra, '')
    if extra <= 0 then call('ZREM', KEYS[1], '') end
    extra_1 = extra
  end
end
if plain < used then -- some end later than in a ttl
  last_1 = call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')[2] + 0
  if last_1 > now + 3600000000 then -- the clock was set back
    last_1 = now + 3600000000
    local latest = string.format('%d', last_1)
    for _, member in ipairs(call('ZRANGEBYSCORE', KEYS[1], '(' .. latest, '+inf')) do
      call('ZADD', KEYS[1], latest, member)
    end
    call('PEXPIREAT', KEYS[1], string.format('%d', math.ceil(last_1 / 1000)))
  end
end
used = used + extra_1

--- check
if used < limit_1 then remaining_1 = limit_1 - used end
if cost_1 > remaining_1 then retry_1 = cost_1 > limit_1 and -1 or 1000000 end

--- charge
remaining_1 = remaining_1 - cost_1
local entry = ARGV[2] .. ':' .. ARGV[1]
if cost_1 > 1 then
  call('ZADD', KEYS[1], 1 - cost_1 - extra_1, '', stop_1, entry)
else
  call('ZADD', KEYS[1], stop_1, entry)
end
call('PEXPIREAT', KEYS[1], string.format('%d', math.ceil(math.max(now + ttl_1, last_1) / 1000)))

--- refund
if cost_1 > 0 then
  if call('ZREM', KEYS[1], ARGV[2] .. ':' .. ARGV[1]) == 0 then
    gone_1 = 1
  elseif cost_1 > 1 and call('ZINCRBY', KEYS[1], cost_1 - 1, '') + 0 == 0 then
    call('ZREM', KEYS[1], '')
  end
end

--- release
-- What gives slots back that many requests of one identity held: a script of its own,
-- which needs no clock.
--
-- KEYS[1]  the limit's key
-- ARGV[1]  and so on: the nonce of an entry, its slots
-- Reply    how many of the entries were not there any more
local gone = 0
for i = 1, #ARGV, 2 do
  if call('ZREM', KEYS[1], ARGV[i] .. ':' .. ARGV[i + 1]) == 0 then
    gone = gone + 1
  elseif ARGV[i + 1] + 0 > 1 and call('ZINCRBY', KEYS[1], ARGV[i + 1] - 1, '') + 0 == 0 then
    call('ZREM', KEYS[1], '')
  end
end
return gone

--- renew
-- The renewal of many entries of one identity, which is a script of its own, with
-- the clock in front.
--
-- KEYS[1]  the limit's key
-- ARGV[1]  ttl, us
-- ARGV[2]  and so on: the nonce of an entry, its slots
-- Reply    how many of the entries were not there: they are again, whatever the limit
local stop = string.format('%d', now + ARGV[1])
local added, extra = 0, 0
for i = 2, #ARGV, 2 do
  if call('ZADD', KEYS[1], stop, ARGV[i] .. ':' .. ARGV[i + 1]) == 1 then
    added, extra = added + 1, extra + ARGV[i + 1] - 1
  end
end
if extra > 0 then call('ZINCRBY', KEYS[1], 0 - extra, '') end
local last = call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')[2]
call('PEXPIREAT', KEYS[1], string.format('%d', math.ceil(last / 1000)))
return added
