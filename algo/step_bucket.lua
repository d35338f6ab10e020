-- A token_bucket that is refilled in steps: its limit of tokens comes at once, at
-- each multiple of its window since the Unix epoch, and none comes between.
-- (A replenishing process; RFC 2215 has the bucket that is refilled evenly.)
--
-- KEYS[1]  the limit's key
-- ARGV[1]  cost, in units; in a refund what is given back, or below 0 owed
-- ARGV[2]  limit: the tokens that a step brings
-- ARGV[3]  window: from step to step, us
-- ARGV[4]  capacity: burst, units; 0 for a limit of 0
-- Reply    remaining (units), reset_after (us), retry_after (us; 0 admitted,
--          -1 never), reset_after without this charge (us)
-- State    STRING, three little-endian doubles: the units that are missing, how many
--          of these are beyond the capacity that they were counted with, and when the
--          step began in which they were counted (us since the Unix epoch). A request
--          with any limit and capacity can read them: at most its own capacity is
--          missing, and as much of debt, and its own steps have brought tokens since.
--          What changes a charge clamps nothing: a refund takes its units off those
--          that are missing, and a debit adds them.
-- TTL      until the step that fills the bucket
--
-- `now` is Redis' time in us. What was counted in a later step, before the clock was
-- set back, counts as of this step, and is written so by whatever call sees it, so
-- that no client waits for the clock. What is no state of ours counts as no key.
--
-- compose.go makes scripts of the functions below: see there how it binds what they
-- take, and keeps what they return.

local function begin(window)
  local start = now - now % window
  return start
end

local function measure(key, limit, window, capacity, start)
  local used, stored = 0, try('GET', key)
  if stored and #stored == 24 then
    local units, owed, at = struct.unpack('<ddd', stored)
    if units > 0 and units < 2^53 and owed >= 0 and owed <= units then
      local missing = units
      if missing > capacity then
        missing = math.min(missing - owed, capacity) + math.min(owed, capacity)
      end
      if at > start then -- the clock was set back
        at = start
        local stop = start + math.min(math.ceil(units / math.max(limit, 1)) * window, 2^52)
        local state = struct.pack('<ddd', units, owed, at)
        call('SET', key, state, 'PXAT', string.format('%d', math.floor(stop / 1000)))
      end
      missing = math.ceil(missing - math.floor((start - at) / window) * limit)
      if missing > 0 then used = missing end
    end
  elseif stored then
    foreign(key, stored)
  end
  return used
end

local function check(cost, limit, window, capacity, start, used)
  local remaining, reset, retry = 0, 0, 0
  if used < capacity then remaining = capacity - used end
  if used > 0 then reset = start + math.ceil(used / limit) * window - now end
  local before = reset
  if cost > capacity then
    retry = -1
  elseif cost > remaining then
    retry = start + math.ceil((used + cost - capacity) / limit) * window - now
  end
  return remaining, reset, retry, before
end

local function charge(key, cost, limit, window, start, used, remaining)
  used = used + cost
  remaining = remaining - cost
  local stop = start + math.ceil(used / limit) * window
  local reset = stop - now
  call('SET', key, struct.pack('<ddd', used, 0, start), 'PXAT', string.format('%d', stop / 1000))
  return remaining, reset
end

local function recall(key, limit, window, start)
  local missing, owed, at, stored = 0, 0, start, try('GET', key)
  if stored and #stored == 24 then
    missing, owed, at = struct.unpack('<ddd', stored)
    if missing > 0 and missing < 2^53 and owed >= 0 and owed <= missing then
      if at > start then -- the clock was set back
        at = start
        local stop = start + math.min(math.ceil(missing / math.max(limit, 1)) * window, 2^52)
        local state = struct.pack('<ddd', missing, owed, at)
        call('SET', key, state, 'PXAT', string.format('%d', math.floor(stop / 1000)))
      end
    else
      missing, at = 0, start
    end
  elseif stored then
    foreign(key, stored)
  end
  local brought = math.floor((start - at) / window) * limit
  return missing, owed, at, brought
end

local function refund(key, cost, limit, window, capacity, start, missing, owed, at, brought)
  -- What was charged a whole refill ago has come back with time.
  if missing > brought and charged >= start + window - math.ceil(capacity / limit) * window then
    missing, owed = missing - cost, math.max(owed - cost, 0)
    if missing > brought then
      call('SET', key, struct.pack('<ddd', missing, owed, at), 'KEEPTTL')
    else
      call('DEL', key)
    end
  end
end

local function debit(key, cost, limit, window, capacity, start, missing, owed, brought)
  local used, debt, owes = 0, 0, math.min(-cost, 2 * capacity)
  if missing > brought then used, debt = missing - brought, math.max(owed - brought, 0) end
  -- Steps since then have filled a bucket that is full now. How long another one was full
  -- is not known: it is taken to have lacked tokens all the time.
  if used == 0 and charged < start then
    owes = owes - math.ceil((start - charged) / window) * limit
  end
  local free = math.max(capacity + debt - used, 0)
  owes = math.min(owes, capacity - debt + free)
  if owes > 0 then
    used, debt = used + owes, debt + math.max(owes - free, 0)
    local stop = start + math.min(math.ceil(used / limit) * window, 2^52)
    local state = struct.pack('<ddd', used, debt, start)
    call('SET', key, state, 'PXAT', string.format('%d', math.floor(stop / 1000)))
  end
end
