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
-- compose.go makes scripts of the sections below: _1 and [1] stand for the limit's
-- place in its plan, and its arguments follow those of the limits before it.

--- locals
local cost_1, interval_1, tolerance_1 = ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0
local lead_1, remaining_1, reset_1, retry_1, before_1 = 0, 0, 0, 0, 0

--- locals queue
local cost_1, interval_1, tolerance_1, patience_1 = ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0, ARGV[4] + 0
local lead_1, remaining_1, reset_1, retry_1, before_1, delay_1 = 0, 0, 0, 0, 0, 0

--- load
local stored = call('GET', KEYS[1])
if stored and (#stored == 24 or #stored == 32) then
  local lead, interval, at = struct.unpack('<ddd', stored)
  if lead > 0 and lead < 2^53 and interval > 0 then
    if at > now then -- the clock was set back
      at = now
      local state = struct.pack('<ddd', lead, interval, at) .. string.sub(stored, 25)
      call('SET', KEYS[1], state, 'PXAT', string.format('%d', math.ceil((now + math.ceil(lead)) / 1000)))
    end
    local tick
    if interval ~= interval_1 then
      -- The same units at another rate. Rounded up to a tick all sums are exact.
      tick = interval_1 >= 2^17 and 1 or interval_1 >= 2^6 and 2^-4
        or interval_1 >= 2^-2 and 2^-12 or interval_1 >= 2^-10 and 2^-20 or 2^-30
      lead = math.ceil(lead / interval * interval_1 / tick) * tick
    end
    if lead > tolerance_1 then
      local debt = #stored == 32 and struct.unpack('<d', stored, 25) or 0
      if tick then debt = math.ceil(debt / interval * interval_1 / tick) * tick end
      lead = math.min(lead - debt, tolerance_1) + math.min(debt, tolerance_1)
    end
    if lead > now - at then lead_1 = lead - (now - at) end
  end
end

--- check
local room, needs = tolerance_1 - lead_1, cost_1 * interval_1
before_1 = math.ceil(lead_1)
if room > 0 then remaining_1 = math.floor(room / interval_1) end
reset_1 = before_1
if needs > room and cost_1 > 0 then
  retry_1 = needs > tolerance_1 and -1 or math.ceil(needs - room)
end

--- check queue
local room, needs = tolerance_1 - lead_1, cost_1 * interval_1
before_1 = math.ceil(lead_1)
if room > 0 then remaining_1 = math.floor(room / interval_1) end
reset_1 = before_1
if needs > tolerance_1 then
  retry_1 = -1
elseif cost_1 > 0 then
  local over = needs - room
  if lead_1 - patience_1 > over then over = lead_1 - patience_1 end
  if over > 0 then retry_1 = math.ceil(over) else delay_1 = before_1 end
end

--- charge
lead_1 = lead_1 + cost_1 * interval_1
remaining_1, reset_1 = remaining_1 - cost_1, math.ceil(lead_1)
local state = struct.pack('<ddd', lead_1, interval_1, now)
call('SET', KEYS[1], state, 'PXAT', string.format('%d', math.ceil((now + reset_1) / 1000)))

--- refund
-- What was charged a whole tolerance ago has come back with time.
if lead_1 > 0 and now - charged < tolerance_1 then
  lead_1 = lead_1 - cost_1 * interval_1
  if lead_1 > 0 then
    local state = struct.pack('<ddd', lead_1, interval_1, now)
    if lead_1 > tolerance_1 then state = state .. struct.pack('<d', lead_1 - tolerance_1) end
    call('SET', KEYS[1], state, 'PXAT', string.format('%d', math.ceil((now + math.ceil(lead_1)) / 1000)))
  else
    call('DEL', KEYS[1])
  end
end

--- debit
-- A bucket that is empty now has drained ever since the charge. How long another one
-- was empty is not known: it is taken to have drained all the time.
local owed = math.min(-cost_1 * interval_1, 2 * tolerance_1)
if lead_1 == 0 and charged < now then owed = owed - (now - charged) end
owed = math.min(owed, 2 * tolerance_1 - lead_1)
if owed > 0 then
  lead_1 = lead_1 + owed
  local state = struct.pack('<ddd', lead_1, interval_1, now)
  if lead_1 > tolerance_1 then state = state .. struct.pack('<d', lead_1 - tolerance_1) end
  call('SET', KEYS[1], state, 'PXAT', string.format('%d', math.ceil((now + math.ceil(lead_1)) / 1000)))
end
