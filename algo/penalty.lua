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
--          now, -3, left  blocked, for so long (us)
-- State    STRING: when the first of the strikes came, when the last block ends, and
--          how long it is (us, little-endian doubles), then how many blocks there were
--          one after another, and how many strikes (32 bits each). Anything else
--          counts as no key.
-- TTL      twice the last block's length after its end: until then the next block is a
--          longer one; and as long as a worker may tell of rejections that are to be
--          held against the strikes or the block: `within` after either is over
--
-- While a block lasts nothing counts. `now` is Redis' time in us. A block that begins
-- in the future, since the clock was set back, begins now: the first call that sees it
-- writes that, so that no client waits for the clock. The same holds for strikes.
--
-- compose.go makes scripts of the functions below: see there how it binds what they
-- take, and keeps what they return.

local function count(penalty, at, strikes, after, within, lengths)
  if penalty.strikes == 0 or at - penalty.since >= within + 0 then penalty.since, penalty.strikes = at, 0 end
  penalty.strikes, penalty.changed = penalty.strikes + strikes, true
  if penalty.strikes >= after + 0 then
    penalty.blocks = now - penalty.ends < 2 * penalty.length and penalty.blocks + 1 or 1
    local nth = 0
    for length in string.gmatch(lengths, '%d+') do
      nth = nth + 1
      if nth <= penalty.blocks then penalty.length = length + 0 end
    end
    if penalty.blocks > nth then penalty.blocks = nth end
    penalty.since, penalty.strikes, penalty.ends, penalty.earned = 0, 0, now + penalty.length, penalty.length
  end
end

local function save(key, penalty, within)
  local stop = penalty.ends + math.max(2 * penalty.length, within + 0)
  if penalty.strikes > 0 then stop = math.max(stop, penalty.since + 2 * within) end
  local state = struct.pack('<dddI4I4', penalty.since, penalty.ends, penalty.length, penalty.blocks, penalty.strikes)
  call('SET', key, state, 'PXAT', string.format('%d', math.ceil(stop / 1000)))
end

local function read(key, after, within, lengths, told)
  local penalty = {since = 0, strikes = 0, ends = 0, length = 0, blocks = 0, earned = 0}
  do
    local stored = try('GET', key)
    if stored and #stored == 32 then
      local since, ends, length, blocks, count = struct.unpack('<dddI4I4', stored)
      if since >= 0 and since < 2^53 and ends >= 0 and ends < 2^53 and length >= 0 and length < 2^53 then
        penalty.since, penalty.ends, penalty.length = math.floor(since), math.floor(ends), math.floor(length)
        penalty.blocks, penalty.strikes = math.floor(blocks), math.floor(count)
      end
      if penalty.since > now then penalty.since, penalty.changed = now, true end -- the clock was set back
      if penalty.ends - penalty.length > now then penalty.ends, penalty.changed = now + penalty.length, true end
    elseif stored then
      foreign(key, stored)
    end
    for age, strikes in string.gmatch(told, '(%d+):(%d+)') do
      local at = now - age
      if at >= penalty.ends and age + 0 < within + 0 then
        count(penalty, at, strikes, after, within, lengths)
      end
    end
    if penalty.ends > now then
      if penalty.changed then
        save(key, penalty, within)
      end
      return {now, -3, penalty.ends - now}
    end
  end
  return penalty
end

local function strike(penalty, after, within, lengths, told)
  if string.sub(told, -1) ~= '-' then
    local at, strikes = now, 1
    count(penalty, at, strikes, after, within, lengths)
  end
end
