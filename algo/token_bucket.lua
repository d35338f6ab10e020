-- Token bucket: `burst` tokens at most, refilled one by one at an even rate; a
-- unit takes a token.
--
-- KEYS[1]  the limit's key
-- ARGV[1]  cost, in units
-- ARGV[3]  refill: us in which one token is added
-- ARGV[4]  fill: refill * burst, us in which an empty bucket is full
-- ARGV[5]  wrap: the modulus of the clock, us, a power of two (see bucket.go)
-- Reply    remaining (units), reset_after (us), retry_after (us; 0 admitted,
--          -1 never)
-- State    STRING, a number: the time at which the bucket is full again, us on
--          the wrapped clock. What is missing now is that time in tokens; so
--          one number holds both the tokens and when they were counted.
-- TTL      until the bucket is full; then the key says no more than no key
--
-- `now` is Redis' time in us. A time of the past, or what is no number, counts
-- as no key. More missing than a whole fill was left by a larger burst: it
-- passes with time, and with the key's own expiry; without one it is not ours.

--- constants
local refill_1, fill_1, wrap_1 = ARGV[3] + 0, ARGV[4] + 0, ARGV[5] + 0

--- load
local now_1, missing_1 = now % wrap_1, 0
do
  local full = tonumber(call('GET', KEYS[1]))
  if full then
    missing_1 = (full - now_1) % wrap_1
    if not (missing_1 + missing_1 <= wrap_1) or missing_1 > fill_1 and call('PTTL', KEYS[1]) < 0 then
      missing_1 = 0
    end
  end
end

--- check
local remaining_1, reset_1, retry_1 = 0, 0, 0
do
  local short = missing_1 + cost * refill_1 - fill_1
  if short > 0 then
    retry_1 = cost * refill_1 > fill_1 and -1 or short + -short % 1
  end
end

--- charge
missing_1 = missing_1 + cost * refill_1
reset_1 = missing_1 + -missing_1 % 1
do
  local full, room = now + reset_1, fill_1 - missing_1
  call('SET', KEYS[1], now_1 + missing_1, 'PXAT', (full + -full % 1000) / 1000)
  remaining_1 = (room - room % refill_1) / refill_1
end

--- report
reset_1 = missing_1 + -missing_1 % 1
if missing_1 < fill_1 then
  local room = fill_1 - missing_1
  remaining_1 = (room - room % refill_1) / refill_1
end

--- refund
-- After a whole fill, time itself has given back all that was charged.
do
  local full, clock = tonumber(call('GET', KEYS[1])), now % wrap_1
  if full and now - charged < fill_1 then
    local missing = (full - clock) % wrap_1
    if missing > 0 and missing + missing <= wrap_1 then
      missing = missing - cost * refill_1
      if missing > 0 then
        full = now + missing + -missing % 1
        call('SET', KEYS[1], clock + missing, 'PXAT', (full + -full % 1000) / 1000)
      else
        call('DEL', KEYS[1])
      end
    end
  end
end
