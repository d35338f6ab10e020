-- Leaky bucket: a unit pours one drip into a bucket that is `burst` drips deep
-- and leaks at an even rate. As a meter (reject) what fits goes through at once;
-- as a queue it leaves when what was in the bucket before it has leaked out.
--
-- KEYS[1]  the limit's key
-- ARGV[1]  cost, in units
-- ARGV[2]  not used
-- ARGV[3]  drip: us in which one unit leaks out
-- ARGV[4]  depth: drip * burst, us in which a full bucket leaks out
-- ARGV[5]  patience, queue only: the longest delay, us
-- Reply    remaining (units), reset_after (us), retry_after (us; 0 admitted,
--          -1 never), queue only: delay (us) until the unit leaves
-- State    STRING, a little-endian double: the time at which the bucket runs dry,
--          us on the wrapped clock. Its level now is that time in drips.
-- TTL      until the bucket is dry; then the key says no more than no key
--
-- `now` is Redis' time in us. A time of the past, or what is no double, counts
-- as no key. A level above the depth was left by a larger burst: it passes with
-- time, and with the key's own expiry; without one it is not ours.
--
-- compose.go makes scripts of the sections below: _1 and [1] stand for the limit's
-- place in its policy; in a refund the constants come one argument later.

--- locals
local drip_1, depth_1 = ARGV[3] + 0, ARGV[4] + 0
local clock_1, level_1, remaining_1, reset_1, retry_1 = now, 0, 0, 0, 0

--- locals queue
local drip_1, depth_1, patience_1 = ARGV[3] + 0, ARGV[4] + 0, ARGV[5] + 0
local clock_1, level_1, remaining_1, reset_1, retry_1, delay_1 = now, 0, 0, 0, 0, 0

--- load
-- The clock's modulus, us, a power of two: more than twice what level_1 can be, and
-- small enough for all sums to be exact in doubles (grids in bucket.go).
local wrap = 2^48
if depth_1 > 2^47 then
  wrap = 2^53
elseif drip_1 < 64 then
  wrap = drip_1 >= 2^-2 and 2^40 or drip_1 >= 2^-10 and 2^32 or 2^22
end
clock_1 = now % wrap
local stored = call('GET', KEYS[1])
if stored and #stored == 8 then
  level_1 = (struct.unpack('<d', stored) - clock_1) % wrap
  if not (level_1 + level_1 <= wrap) or level_1 > depth_1 and call('PTTL', KEYS[1]) < 0 then
    level_1 = 0
  end
end

--- check
local over = level_1 + cost * drip_1 - depth_1
if over > 0 then
  retry_1 = cost * drip_1 > depth_1 and -1 or over + -over % 1
end

--- check queue
local over = level_1 + cost * drip_1 - depth_1
if level_1 - patience_1 > over then over = level_1 - patience_1 end
if cost * drip_1 > depth_1 then
  retry_1 = -1
elseif over > 0 then
  retry_1 = over + -over % 1
else
  delay_1 = level_1 + -level_1 % 1
end

--- charge
level_1 = level_1 + cost * drip_1
reset_1 = level_1 + -level_1 % 1
local room = depth_1 - level_1
remaining_1 = (room - room % drip_1) / drip_1
local state = struct.pack('<d', clock_1 + level_1)
call('SET', KEYS[1], state, 'PXAT', string.format('%d', (now + reset_1 + 999) / 1000))

--- report
reset_1 = level_1 + -level_1 % 1
local room = depth_1 - level_1
if room > 0 then remaining_1 = (room - room % drip_1) / drip_1 end

--- refund
-- What was poured in a whole depth ago has leaked out with time.
if level_1 > 0 and now - charged < depth_1 then
  level_1 = level_1 - cost * drip_1
  if level_1 > 0 then
    reset_1 = level_1 + -level_1 % 1
    local state = struct.pack('<d', clock_1 + level_1)
    call('SET', KEYS[1], state, 'PXAT', string.format('%d', (now + reset_1 + 999) / 1000))
  else
    call('DEL', KEYS[1])
  end
end
