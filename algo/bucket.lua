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
-- when what was in the bucket before it has leaked out. Where only what is over a
-- burst waits (gcra and token_bucket), it leaves when it would fit; the tolerance
-- then has the patience in it. Lent, workers take batches of units and spend them
-- later: bucket_lent.go says why none is admitted twice. GCRA: ITU-T Recommendation
-- I.371, annex A.
--
-- KEYS[1]  the limit's key
-- ARGV[1]  cost, in units; in a refund what is given back, or below 0 owed. Lent, a
--          cost above 1 is that of a batch.
--          over, over_at, lent only: units of an earlier batch that its worker holds no
--          more, and when they were charged (us since the Unix epoch). In a refund of a
--          batch's units over is above 0.
-- ARGV[2]  interval, us
-- ARGV[3]  tolerance: interval * burst, us; 0 for a limit of 0; wait: the patience more
-- ARGV[4]  patience, queue and wait only: the longest delay, us
--          period, lent only: how long after its charge a unit may be spent, us
-- Reply    remaining (units), reset_after (us), retry_after (us; 0 admitted,
--          -1 never), reset_after without this charge (us), queue and wait only: delay
--          (us) until the unit leaves, wait only: how many units of the cost waited for
-- State    STRING, three little-endian doubles: the lead (us), the interval that
--          it was counted with (us) and when it was counted (us since the Unix
--          epoch). So lead / interval is the units that were in use then, which
--          a request with any interval and tolerance can read: they take its own
--          interval each, at most its tolerance together, and drain from then on.
--          Only a charge counts anew. What changes one clamps nothing: a refund takes its
--          units off what was counted, and a debit adds them. In debt a fourth double says how
--          much of the lead is beyond the tolerance that it was counted with: it
--          may be one more tolerance. Lent, the fourth to sixth are the units that were
--          lent in this period and in the one before, and when this one ends (us since the
--          Unix epoch), if there are such units.
-- TTL      until the lead has passed; then the key says no more than no key
--
-- `now` is Redis' time in us. What was counted in the future, before the clock was
-- set back, counts from now on, and is written so by whatever call sees it, so
-- that no client waits for the clock. What is no state of ours counts as no key.
--
-- x + -x % 1000 is x rounded up, for less than a call of math.ceil costs. What a script
-- answers goes through math.ceil all the same: Lua 5.4 makes an integer of it.
--
-- compose.go makes scripts of the functions below: see there how it binds what they
-- take, and keeps what they return.

local function measure(key, interval, tolerance)
  local lead, stored = 0, try('GET', key)
  if stored and (#stored == 24 or #stored == 32 or #stored == 48) then
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

local function measure_lent(key, interval, tolerance, period)
  local lead, recent, older, ends, stored = 0, 0, 0, 0, try('GET', key)
  if stored and (#stored == 24 or #stored == 32 or #stored == 48) then
    local size, rate, at = struct.unpack('<ddd', stored)
    if #stored == 48 then recent, older, ends = struct.unpack('<ddd', stored, 25) end
    if size > 0 and size < 2^53 and rate > 0 and recent >= 0 and older >= 0 and ends >= 0 then
      if at > now then -- the clock was set back
        if #stored == 48 then ends = ends - (at - now) end
        at = now
        local state = struct.pack('<ddd', size, rate, at)
        local stop = now + math.ceil(size)
        if #stored == 48 then
          state = state .. struct.pack('<ddd', recent, older, ends)
          stop = math.max(stop, ends + math.ceil((recent + older) * rate))
          if recent > 0 then stop = math.max(stop, ends + period + math.ceil(recent * rate)) end
        elseif #stored == 32 then
          state = state .. string.sub(stored, 25)
        end
        call('SET', key, state, 'PXAT', string.format('%d', math.ceil(stop / 1000)))
      end
      local tick
      if rate ~= interval then
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
      if #stored == 48 then
        -- The bucket has not drained below what was lent, while that could be held.
        local most = math.floor(tolerance / interval + 0.5)
        recent, older = math.min(recent, most), math.min(older, most)
        local both, later = math.min((recent + older) * interval, tolerance), recent * interval
        ends = math.ceil(ends) -- an integer
        local past = now - ends
        lead = math.max(lead, both - math.max(past, 0), later - math.max(past - period, 0))
        if past >= 0 then recent, older, ends = 0, recent, ends + period end
        if past >= period or recent + older == 0 then recent, older, ends = 0, 0, 0 end
      end
    else
      recent, older, ends = 0, 0, 0
    end
  elseif stored then
    foreign(key, stored)
  end
  return lead, recent, older, ends
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

local function check_lent(cost, interval, tolerance, period, lead, recent, older, ends)
  local room, needs = tolerance - lead, cost * interval
  local remaining, retry, before = 0, 0, math.ceil(lead)
  if room > 0 then remaining = math.floor(room / interval) end
  if needs > room and cost > 0 then
    retry = needs > tolerance and -1 or math.ceil(needs - room)
  end
  if ends > 0 then
    local both, later = math.min((recent + older) * interval, tolerance), recent * interval
    before = math.max(before, ends - now + math.ceil(both))
    if later > 0 then before = math.max(before, ends + period - now + math.ceil(later)) end
    if retry > 0 then
      local to = tolerance - needs
      if both > to then retry = math.max(retry, ends - now + math.ceil(both - to)) end
      if later > to then retry = math.max(retry, ends + period - now + math.ceil(later - to)) end
    end
  end
  local reset = before
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

local function check_wait(cost, interval, tolerance, patience, lead)
  local room, needs = tolerance - patience - lead, cost * interval
  local remaining, retry, before, delay, waiting = 0, 0, math.ceil(lead), 0, 0
  local reset = before
  if room > 0 then remaining = math.floor(room / interval) end
  if needs > tolerance - patience then
    retry = -1
  elseif needs > room and cost > 0 then
    delay = math.ceil(needs - room)
    waiting = cost - remaining
    if delay > patience then retry, delay, waiting = delay - patience, 0, 0 end
  end
  return remaining, reset, retry, before, delay, waiting
end

local function charge_wait(key, cost, interval, lead, remaining, waiting)
  lead = lead + cost * interval
  remaining = remaining + waiting - cost
  local reset = math.ceil(lead)
  local state = struct.pack('<ddd', lead, interval, now)
  local stop = now + reset
  call('SET', key, state, 'PXAT', string.format('%d', (stop + -stop % 1000) / 1000))
  return remaining, reset
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

local function charge_pool(key, cost, interval, tolerance, lead, remaining)
  -- A guarantee charges it beyond its tolerance, too: see guarantee.go.
  lead = lead + cost * interval
  remaining = math.max(remaining - cost, 0)
  local reset = math.ceil(lead)
  local state = struct.pack('<ddd', lead, interval, now)
  if lead > tolerance then state = state .. struct.pack('<d', lead - tolerance) end
  local stop = now + reset
  call('SET', key, state, 'PXAT', string.format('%d', (stop + -stop % 1000) / 1000))
  return remaining, reset
end

local function charge_lent(key, cost, over, over_at, interval, period, lead, recent, older, ends, remaining)
  -- Of an earlier batch, what is over drains from now on.
  if over > 0 then
    if over_at >= ends - period then
      recent = recent - math.min(over, recent)
    elseif over_at >= ends - 2 * period then
      older = older - math.min(over, older)
    end
  end
  lead = lead + cost * interval
  remaining = remaining - cost
  if cost > 1 then
    if recent + older == 0 then ends = now + period end
    recent = recent + cost
  end
  local reset, state = math.ceil(lead), struct.pack('<ddd', lead, interval, now)
  if recent + older > 0 then
    state = state .. struct.pack('<ddd', recent, older, ends)
    reset = math.max(reset, ends - now + math.ceil((recent + older) * interval))
    if recent > 0 then reset = math.max(reset, ends + period - now + math.ceil(recent * interval)) end
  end
  local stop = now + reset
  call('SET', key, state, 'PXAT', string.format('%d', (stop + -stop % 1000) / 1000))
  return remaining, reset
end

local function recall(key)
  local size, rate, at, debt, stored = 0, 0, now, 0, try('GET', key)
  if stored and (#stored == 24 or #stored == 32 or #stored == 48) then
    size, rate, at = struct.unpack('<ddd', stored)
    if size > 0 and size < 2^53 and rate > 0 then
      if #stored == 32 then debt = struct.unpack('<d', stored, 25) end
      if at > now then -- the clock was set back
        at = now
        local state = struct.pack('<ddd', size, rate, at) .. string.sub(stored, 25)
        call('SET', key, state, 'PXAT', string.format('%d', math.ceil((now + math.ceil(size)) / 1000)))
      end
    else
      size, at = 0, now
    end
  elseif stored then
    foreign(key, stored)
  end
  return size, rate, at, debt
end

local function recall_lent(key, period)
  local lead, rate, debt, recent, older, ends, stored = 0, 0, 0, 0, 0, 0, try('GET', key)
  if stored and (#stored == 24 or #stored == 32 or #stored == 48) then
    local size, at
    size, rate, at = struct.unpack('<ddd', stored)
    if #stored == 48 then recent, older, ends = struct.unpack('<ddd', stored, 25) end
    if size > 0 and size < 2^53 and rate > 0 and recent >= 0 and older >= 0 and ends >= 0 then
      if #stored == 32 then debt = struct.unpack('<d', stored, 25) end
      if at > now then -- the clock was set back
        if #stored == 48 then ends = ends - (at - now) end
        at = now
        local state = struct.pack('<ddd', size, rate, at)
        local stop = now + math.ceil(size)
        if #stored == 48 then
          state = state .. struct.pack('<ddd', recent, older, ends)
          stop = math.max(stop, ends + math.ceil((recent + older) * rate))
          if recent > 0 then stop = math.max(stop, ends + period + math.ceil(recent * rate)) end
        elseif #stored == 32 then
          state = state .. string.sub(stored, 25)
        end
        call('SET', key, state, 'PXAT', string.format('%d', math.ceil(stop / 1000)))
      end
      lead, debt = math.max(size - (now - at), 0), math.max(debt - (now - at), 0)
      if #stored == 48 then
        local both, later = (recent + older) * rate, recent * rate
        ends = math.ceil(ends) -- an integer
        local past = now - ends
        lead = math.max(lead, both - math.max(past, 0), later - math.max(past - period, 0))
        if past >= 0 then recent, older, ends = 0, recent, ends + period end
        if past >= period or recent + older == 0 then recent, older, ends = 0, 0, 0 end
      end
    else
      recent, older, ends = 0, 0, 0
    end
  elseif stored then
    foreign(key, stored)
  end
  return lead, rate, debt, recent, older, ends
end

local function refund(key, cost, tolerance, size, rate, at, debt)
  -- What was charged a whole tolerance ago has come back with time.
  if size > now - at and now - charged < tolerance then
    size, debt = size - cost * rate, debt - cost * rate
    if size > now - at then
      local state = struct.pack('<ddd', size, rate, at)
      if debt > 0 then state = state .. struct.pack('<d', debt) end
      call('SET', key, state, 'PXAT', string.format('%d', math.ceil((at + math.ceil(size)) / 1000)))
    else
      call('DEL', key)
    end
  end
end

local function refund_lent(key, cost, over, tolerance, period, lead, rate, debt, recent, older, ends)
  local back, known, gone = cost * rate, 0, false
  if over > 0 then
    if charged >= ends - period then
      known = math.min(cost, recent)
      recent = recent - known
    elseif charged >= ends - 2 * period then
      known = math.min(cost, older)
      older = older - known
    end
    -- What is no longer counted as lent has begun to drain.
    if known < cost then back = math.max(back - math.max(now - charged - period, 0), 0) end
  else
    gone = now - charged >= tolerance
  end
  if lead > 0 and not gone then
    lead, debt = math.max(lead - back, (recent + older) * rate), debt - back
    if lead > 0 then
      local state, stop = struct.pack('<ddd', lead, rate, now), now + math.ceil(lead)
      if recent + older > 0 then
        state = state .. struct.pack('<ddd', recent, older, ends)
        stop = math.max(stop, ends + math.ceil((recent + older) * rate))
        if recent > 0 then stop = math.max(stop, ends + period + math.ceil(recent * rate)) end
      elseif debt > 0 then
        state = state .. struct.pack('<d', debt)
      end
      call('SET', key, state, 'PXAT', string.format('%d', math.ceil(stop / 1000)))
    else
      call('DEL', key)
    end
  end
end

local function debit(key, cost, interval, tolerance, size, rate, at, debt)
  -- What was counted at another rate has drained at the slower one of the two.
  local past = now - at
  if rate < interval then past = math.floor(past * rate / interval) end
  local lead = size - past
  if lead > 0 then debt = math.max(debt - past, 0) else lead, debt, rate = 0, 0, interval end
  local capacity = tolerance / interval * rate
  local owed = math.min(-cost * rate, 2 * capacity)
  -- A bucket that is empty now has drained ever since the charge. How long another one
  -- was empty is not known: it is taken to have drained all the time.
  if lead == 0 and charged < now then owed = owed - (now - charged) end
  local free = math.max(capacity + debt - lead, 0)
  owed = math.min(owed, capacity - debt + free, 2^53 - 1 - lead)
  if owed > 0 then
    lead, debt = lead + owed, debt + math.max(owed - free, 0)
    local state = struct.pack('<ddd', lead, rate, now)
    if debt > 0 then state = state .. struct.pack('<d', debt) end
    call('SET', key, state, 'PXAT', string.format('%d', math.ceil((now + math.ceil(lead)) / 1000)))
  end
end
