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
-- slots, that decides, and the script looks at nothing else.
--
-- compose.go makes scripts of the functions below: see there how it binds what they
-- take, and keeps what they return.

local function count(key, limit, ttl)
  local last, extra, stop = 0, 0, string.format('%d', now + ttl)
  local plain = try('ZCOUNT', key, string.format('(%d', now), stop)
  if type(plain) == 'table' then
    local stored = plain
    foreign(key, stored)
    plain = 0
  end
  local used = plain < limit and call('ZCARD', key) or plain
  if plain < used then
    local first = call('ZRANGE', key, 0, 0, 'WITHSCORES')
    if first[1] == '' and first[2] + 0 < 0 then -- some have several slots
      used, extra = used - 1, 0 - first[2]
    end
  end
  if plain < used then -- some may have ended
    local till, left = string.format('%d', now), extra
    for _, member in ipairs(left > 0 and call('ZRANGEBYSCORE', key, 1, till) or {}) do
      left = left + 1 - (tonumber(string.match(member, ':(%d+)$')) or 1)
    end
    used = used - call('ZREMRANGEBYSCORE', key, 1, till)
    if left < extra then
      call('ZADD', key, 0 - left, '')
      if left <= 0 then call('ZREM', key, '') end
      extra = left
    end
  end
  if plain < used then -- some end later than in a ttl
    last = call('ZRANGE', key, -1, -1, 'WITHSCORES')[2] + 0
    if last > now + 3600000000 then -- the clock was set back
      last = now + 3600000000
      local latest = string.format('%d', last)
      for _, member in ipairs(call('ZRANGEBYSCORE', key, '(' .. latest, '+inf')) do
        call('ZADD', key, latest, member)
      end
      call('PEXPIREAT', key, string.format('%d', math.ceil(last / 1000)))
    end
  end
  used = used + extra
  return used, last, extra, stop
end

local function check(cost, limit, used)
  local remaining, retry = 0, 0
  if used < limit then remaining = limit - used end
  if cost > remaining then retry = cost > limit and -1 or 1000000 end
  return remaining, retry
end

local function charge(key, cost, units, nonce, ttl, last, extra, stop, remaining)
  remaining = remaining - cost
  local entry = nonce .. ':' .. units
  if cost > 1 then
    call('ZADD', key, 1 - cost - extra, '', stop, entry)
  else
    call('ZADD', key, stop, entry)
  end
  call('PEXPIREAT', key, string.format('%d', math.ceil(math.max(now + ttl, last) / 1000)))
  return remaining
end

local function refund(key, cost, units, nonce)
  local gone = 0
  local stored = try('ZREM', key, nonce .. ':' .. units)
  if stored ~= 1 then
    gone = 1
    if stored ~= 0 then
      foreign(key, stored)
    end
  elseif cost > 1 and call('ZINCRBY', key, cost - 1, '') + 0 == 0 then
    call('ZREM', key, '')
  end
  return gone
end

-- What gives slots back that many requests of one identity held: a script of its own,
-- which needs no clock.
--
-- KEYS[1]  the limit's key
-- ARGV[1]  and so on: the nonce of an entry, its slots
-- Reply    how many of the entries were not there any more
local function release(key)
  local gone = 0
  for i = 1, #ARGV, 2 do
    local stored = try('ZREM', key, ARGV[i] .. ':' .. ARGV[i + 1])
    if stored ~= 1 then
      gone = gone + 1
      if stored ~= 0 then
        foreign(key, stored)
      end
    elseif ARGV[i + 1] + 0 > 1 and call('ZINCRBY', key, ARGV[i + 1] - 1, '') + 0 == 0 then
      call('ZREM', key, '')
    end
  end
  return gone
end

-- The renewal of many entries of one identity, which is a script of its own, with
-- the clock in front.
--
-- KEYS[1]  the limit's key
-- ARGV[1]  ttl, us
-- ARGV[2]  and so on: the nonce of an entry, its slots
-- Reply    how many of the entries were not there: they are again, whatever the limit
local function renew(key, ttl)
  local stop = string.format('%d', now + ttl)
  local added, extra = 0, 0
  for i = 2, #ARGV, 2 do
    local stored = try('ZADD', key, stop, ARGV[i] .. ':' .. ARGV[i + 1])
    if type(stored) == 'table' then
      foreign(key, stored)
      stored = call('ZADD', key, stop, ARGV[i] .. ':' .. ARGV[i + 1])
    end
    if stored == 1 then
      added, extra = added + 1, extra + ARGV[i + 1] - 1
    end
  end
  if extra > 0 then call('ZINCRBY', key, 0 - extra, '') end
  local last = call('ZRANGE', key, -1, -1, 'WITHSCORES')[2]
  call('PEXPIREAT', key, string.format('%d', math.ceil(last / 1000)))
  return added
end
