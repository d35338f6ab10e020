-- Token bucket: `burst` tokens at most, refilled one by one at an even rate; a
-- unit takes a token.
--
-- KEYS[1]  the limit's key
-- ARGV[1]  cost, in units
-- ARGV[2]  not used
-- ARGV[3]  refill: us in which one token is added
-- ARGV[4]  fill: refill * burst, us in which an empty bucket is full
-- Reply    remaining (units), reset_after (us), retry_after (us; 0 admitted,
--          -1 never)
-- State    STRING, a little-endian double: the time at which the bucket is full
--          again, us on the wrapped clock. What is missing now is that time in
--          tokens; so one number holds both the tokens and when they were
--          counted.
-- TTL      until the bucket is full; then the key says no more than no key
--
-- `now` is Redis' time in us. A time of the past, or what is no double, counts
-- as no key. More missing than a whole fill was left by a larger burst: it
-- passes with time, and with the key's own expiry; without one it is not ours.
--
-- compose.go makes scripts of the sections below: _1 and [1] stand for the limit's
-- place in its policy; in a refund the constants come one argument later.

--- locals
local refill_1, fill_1 = ARGV[3] + 0, ARGV[4] + 0
local clock_1, missing_1, remaining_1, reset_1, retry_1 = now, 0, 0, 0, 0

--- load
-- The clock's modulus, us, a power of two: more than twice what missing_1 can be, and
-- small enough for all sums to be exact in doubles (grids in bucket.go).
local wrap = 2^48
if fill_1 > 2^47 then
  wrap = 2^53
elseif refill_1 < 64 then
  wrap = refill_1 >= 2^-2 and 2^40 or refill_1 >= 2^-10 and 2^32 or 2^22
end
clock_1 = now % wrap
local stored = call('GET', KEYS[1])
if stored and #stored == 8 then
  missing_1 = (struct.unpack('<d', stored) - clock_1) % wrap
  if not (missing_1 + missing_1 <= wrap) or missing_1 > fill_1 and call('PTTL', KEYS[1]) < 0 then
    missing_1 = 0
  end
end

--- check
local short = missing_1 + cost * refill_1 - fill_1
if short > 0 then
  retry_1 = cost * refill_1 > fill_1 and -1 or short + -short % 1
end

--- charge
missing_1 = missing_1 + cost * refill_1
reset_1 = missing_1 + -missing_1 % 1
local room = fill_1 - missing_1
remaining_1 = (room - room % refill_1) / refill_1
local state = struct.pack('<d', clock_1 + missing_1)
call('SET', KEYS[1], state, 'PXAT', string.format('%d', (now + reset_1 + 999) / 1000))

--- report
reset_1 = missing_1 + -missing_1 % 1
local room = fill_1 - missing_1
if room > 0 then remaining_1 = (room - room % refill_1) / refill_1 end

--- refund
-- What was taken a whole fill ago has been refilled with time.
if missing_1 > 0 and now - charged < fill_1 then
  missing_1 = missing_1 - cost * refill_1
  if missing_1 > 0 then
    reset_1 = missing_1 + -missing_1 % 1
    local state = struct.pack('<d', clock_1 + missing_1)
    call('SET', KEYS[1], state, 'PXAT', string.format('%d', (now + reset_1 + 999) / 1000))
  else
    call('DEL', KEYS[1])
  end
end
