-- GCRA, the generic cell rate algorithm (ITU-T Recommendation I.371, annex A):
-- units that keep to the rate arrive `interval` apart; who comes early runs
-- ahead of that schedule, by `tolerance` at most.
--
-- KEYS[1]  the limit's key
-- ARGV[1]  cost, in units
-- ARGV[2]  not used
-- ARGV[3]  interval: the emission interval, us for one unit
-- ARGV[4]  tolerance: interval * burst, us
-- Reply    remaining (units), reset_after (us), retry_after (us; 0 admitted,
--          -1 never)
-- State    STRING, a little-endian double: the theoretical arrival time (TAT) at
--          which a unit would be right on schedule, us on the wrapped clock
-- TTL      until the TAT; from then on the key says no more than no key
--
-- `now` is Redis' time in us. A TAT of the past, or what is no double, counts
-- as no key. A lead above the tolerance was left by a larger burst: it passes
-- with time, and with the key's own expiry; without one it is not ours.
--
-- compose.go makes scripts of the sections below: _1 and [1] stand for the limit's
-- place in its policy; in a refund the constants come one argument later.

--- locals
local interval_1, tolerance_1 = ARGV[3] + 0, ARGV[4] + 0
local clock_1, lead_1, remaining_1, reset_1, retry_1 = now, 0, 0, 0, 0

--- load
-- The clock's modulus, us, a power of two: more than twice what lead_1 can be, and
-- small enough for all sums to be exact in doubles (grids in bucket.go).
local wrap = 2^48
if tolerance_1 > 2^47 then
  wrap = 2^53
elseif interval_1 < 64 then
  wrap = interval_1 >= 2^-2 and 2^40 or interval_1 >= 2^-10 and 2^32 or 2^22
end
clock_1 = now % wrap
local stored = call('GET', KEYS[1])
if stored and #stored == 8 then
  lead_1 = (struct.unpack('<d', stored) - clock_1) % wrap
  if not (lead_1 + lead_1 <= wrap) or lead_1 > tolerance_1 and call('PTTL', KEYS[1]) < 0 then
    lead_1 = 0
  end
end

--- check
local early = lead_1 + cost * interval_1 - tolerance_1
if early > 0 then
  retry_1 = cost * interval_1 > tolerance_1 and -1 or early + -early % 1
end

--- charge
lead_1 = lead_1 + cost * interval_1
reset_1 = lead_1 + -lead_1 % 1
local room = tolerance_1 - lead_1
remaining_1 = (room - room % interval_1) / interval_1
local state = struct.pack('<d', clock_1 + lead_1)
call('SET', KEYS[1], state, 'PXAT', string.format('%d', (now + reset_1 + 999) / 1000))

--- report
reset_1 = lead_1 + -lead_1 % 1
local room = tolerance_1 - lead_1
if room > 0 then remaining_1 = (room - room % interval_1) / interval_1 end

--- refund
-- What was charged a whole tolerance ago has come back with time.
if lead_1 > 0 and now - charged < tolerance_1 then
  lead_1 = lead_1 - cost * interval_1
  if lead_1 > 0 then
    reset_1 = lead_1 + -lead_1 % 1
    local state = struct.pack('<d', clock_1 + lead_1)
    call('SET', KEYS[1], state, 'PXAT', string.format('%d', (now + reset_1 + 999) / 1000))
  else
    call('DEL', KEYS[1])
  end
end
