-- The bucket of gcra, token_bucket and leaky_bucket, which differ in what they
-- call things alone. A unit takes one interval of time to come back; how far the
-- units in use reach ahead of now, the lead, may be up to the tolerance.
--
--             gcra                  token_bucket         leaky_bucket
-- lead        TAT - now             time until full      time until dry
-- interval    emission interval     refill of a token    leak of a drip
-- tolerance   interval * burst      a whole fill         the whole depth
--
-- As a meter what fits goes through at once. As a queue (leaky_bucket) it leaves
-- when what was in the bucket before it has leaked out. GCRA: ITU-T Recommendation
-- I.371, annex A.
--
-- KEYS[1]  the limit's key
-- ARGV[1]  cost, in units; in a refund what is given back, or below 0 owed
-- ARGV[2]  interval, us
-- ARGV[3]  tolerance: interval * burst, us; 0 for a limit of 0
-- ARGV[4]  patience, queue only: the longest delay, us
-- Reply    remaining (units), reset_after (us), retry_after (us; 0 admitted,
--          -1 never), reset_after without this charge (us), queue only: delay
--          (us) until the unit leaves
-- State    STRING, three little-endian doubles: the lead (us), the interval that
--          it was counted with (us) and when it was counted (us since the Unix
--          epoch). So lead / interval is the units that were in use then, which
--          a request with any interval and tolerance can read: they take its own
--          interval each, at most its tolerance together, and drain from then on.
--          Only a charge or a refund counts anew. In debt a fourth double says how
--          much of the lead is beyond the tolerance that it was counted with: it
--          may be one more tolerance.
-- TTL      until the lead has passed; then the key says no more than no key
--
-- `now` is Redis' time in us. What was counted in the future, before the clock was
-- set back, counts from now on, and is written so by whatever call sees it, so
-- that nobody waits for the clock. What is no state of ours counts as no key.
--
-- x + -x % 1000 is x rounded up, for less than a call of math.ceil costs. What a script
-- answers goes through math.ceil all the same: Lua 5.4 makes an integer of it.
--
-- compose.go makes scripts of the functions below: see there how it binds what they
-- take, and keeps what they return.

local function read(key, interval, tolerance)
  local lead, stored = 0, try('GET', key)
  if stored and (#stored == 24 or #stored == 32) then
    local size, rate, at = struct.unpack('<ddd', stored)
    if size > 0 and size < 2^53 and rate > 0 then
      if at > now then -- the clock was set back
        at = now
        local state = struct.pack('<ddd', size, rate, at) .. string.sub(stored, 25)
        call('SET', key, state, 'PXAT', string.format('%d', math.ceil((now + math.ceil(size)) / 1000)))
      end
      local tick
      if rate ~= interval then
        -- The same units at another rate. Rounded up to a tick all sums are exact.
        tick = interval >= 2^17 and 1 or interval >= 2^6 and 2^-4
          or interval >= 2^-2 and 2^-12 or interval >= 2^-10 and 2^-20 or 2^-30
        size = math.ceil(size / rate * interval / tick) * tick
      end
      if size > tolerance then
        local debt = #stored == 32 and struct.unpack('<d', stored, 25) or 0
        if tick then debt = math.ceil(debt / rate * interval / tick) * tick end
        size = math.min(size - debt, tolerance) + math.min(debt, tolerance)
      end
      if size > now - at then lead = size - (now - at) end
    end
  elseif stored then
    foreign(key, stored)
  end
  return lead
end

local function check(cost, interval, tolerance, lead)
  local room, needs = tolerance - lead, cost * interval
  local remaining, retry, before = 0, 0, math.ceil(lead)
  local reset = before
  if room > 0 then remaining = math.floor(room / interval) end
  if needs > room and cost > 0 then
    retry = needs > tolerance and -1 or math.ceil(needs - room)
  end
  return remaining, reset, retry, before
end

local function check_queue(cost, interval, tolerance, patience, lead)
  local room, needs = tolerance - lead, cost * interval
  local remaining, retry, before, delay = 0, 0, math.ceil(lead), 0
  local reset = before
  if room > 0 then remaining = math.floor(room / interval) end
  if needs > tolerance then
    retry = -1
  elseif cost > 0 then
    local over = needs - room
    if lead - patience > over then over = lead - patience end
    if over > 0 then retry = math.ceil(over) else delay = before end
  end
  return remaining, reset, retry, before, delay
end

local function charge(key, cost, interval, lead, remaining)
  lead = lead + cost * interval
  remaining = remaining - cost
  local reset = math.ceil(lead)
  local state = struct.pack('<ddd', lead, interval, now)
  local stop = now + reset
  call('SET', key, state, 'PXAT', string.format('%d', (stop + -stop % 1000) / 1000))
  return remaining, reset
end

local function refund(key, cost, interval, tolerance, lead)
  -- What was charged a whole tolerance ago has come back with time.
  if lead > 0 and now - charged < tolerance then
    lead = lead - cost * interval
    if lead > 0 then
      local state = struct.pack('<ddd', lead, interval, now)
      if lead > tolerance then state = state .. struct.pack('<d', lead - tolerance) end
      call('SET', key, state, 'PXAT', string.format('%d', math.ceil((now + math.ceil(lead)) / 1000)))
    else
      call('DEL', key)
    end
  end
end

local function debit(key, cost, interval, tolerance, lead)
  -- A bucket that is empty now has drained ever since the charge. How long another one
  -- was empty is not known: it is taken to have drained all the time.
  local owed = math.min(-cost * interval, 2 * tolerance)
  if lead == 0 and charged < now then owed = owed - (now - charged) end
  owed = math.min(owed, 2 * tolerance - lead)
  if owed > 0 then
    lead = lead + owed
    local state = struct.pack('<ddd', lead, interval, now)
    if lead > tolerance then state = state .. struct.pack('<d', lead - tolerance) end
    call('SET', key, state, 'PXAT', string.format('%d', math.ceil((now + math.ceil(lead)) / 1000)))
  end
end
