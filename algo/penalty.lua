-- The penalty of a rule: an identity that the rule rejects too often is blocked, each
-- time for longer, unless it behaves for a while.
--
-- KEYS[1]  the penalty's key
-- ARGV[1]  after: how many rejections earn a block
-- ARGV[2]  within, us: the time in which, from the first of them on
-- ARGV[3]  how long the first block is, the second and so on: us, with spaces between
-- ARGV[4]  what a worker has rejected from memory since it last called: how long ago
--          (us) and how often, "1500000:3 20000:1", oldest first; at the end a "-" if
--          this rejection is not to count: the worker will tell of it if it should
-- Reply    after the limits' integers how long a block is that this rejection has
--          earned (us), else 0. In place of them, and nothing was charged:
--          now, 2, left  blocked, for so long (us)
-- State    STRING: when the first of the strikes came, when the last block ends, and
--          how long it is (us, little-endian doubles), then how many blocks there were
--          one after another, and how many strikes (32 bits each). Anything else
--          counts as no key.
-- TTL      twice the last block's length after its end: until then the next block is a
--          longer one; and as long as a worker may tell of rejections that are to be
--          held against the strikes or the block: `within` after either is over
--
-- While a block lasts nothing counts. `now` is Redis' time in us. A block that begins
-- in the future, since the clock was set back, begins now, and is written so by
-- whatever call sees it, so that nobody waits for the clock; strikes likewise.
--
-- compose.go makes scripts of the sections below: [1] stands for the first of the
-- penalty's own key and arguments, which follow those of the limits, the key that of
-- the overrides; an arrow for another section.

--- load
local penalty = {since = 0, strikes = 0, ends = 0, length = 0, blocks = 0, earned = 0}
do
  local stored = redis.pcall('GET', KEYS[1])
  if type(stored) == 'table' then
    -- An error: a key of another type, or one that this user may not read.
    if not string.find(stored.err, 'WRONGTYPE', 1, true) then return stored end
  elseif stored and #stored == 32 then
    local since, ends, length, blocks, strikes = struct.unpack('<dddI4I4', stored)
    if since >= 0 and since < 2^53 and ends >= 0 and ends < 2^53 and length >= 0 and length < 2^53 then
      penalty.since, penalty.ends, penalty.length = math.floor(since), math.floor(ends), math.floor(length)
      penalty.blocks, penalty.strikes = math.floor(blocks), math.floor(strikes)
    end
    if penalty.since > now then penalty.since, penalty.changed = now, true end -- the clock was set back
    if penalty.ends - penalty.length > now then penalty.ends, penalty.changed = now + penalty.length, true end
  end
  for age, count in string.gmatch(ARGV[4], '(%d+):(%d+)') do
    local at = now - age
    if at >= penalty.ends and age + 0 < ARGV[2] + 0 then
      --> count
    end
  end
  if penalty.ends > now then
    if penalty.changed then
      --> save
    end
    return {now, 2, penalty.ends - now}
  end
end

--- strike
if string.sub(ARGV[4], -1) ~= '-' then
  local at, count = now, 1
  --> count
end

--- count
if penalty.strikes == 0 or at - penalty.since >= ARGV[2] + 0 then penalty.since, penalty.strikes = at, 0 end
penalty.strikes, penalty.changed = penalty.strikes + count, true
if penalty.strikes >= ARGV[1] + 0 then
  penalty.blocks = now - penalty.ends < 2 * penalty.length and penalty.blocks + 1 or 1
  local nth = 0
  for length in string.gmatch(ARGV[3], '%d+') do
    nth = nth + 1
    if nth <= penalty.blocks then penalty.length = length + 0 end
  end
  if penalty.blocks > nth then penalty.blocks = nth end
  penalty.since, penalty.strikes, penalty.ends, penalty.earned = 0, 0, now + penalty.length, penalty.length
end

--- save
local stop = penalty.ends + math.max(2 * penalty.length, ARGV[2] + 0)
if penalty.strikes > 0 then stop = math.max(stop, penalty.since + 2 * ARGV[2]) end
local state = struct.pack('<dddI4I4', penalty.since, penalty.ends, penalty.length, penalty.blocks, penalty.strikes)
call('SET', KEYS[1], state, 'PXAT', string.format('%d', math.ceil(stop / 1000)))
