local call, try, KEYS, ARGV = redis.call, redis.pcall, KEYS, ARGV
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local charged = ARGV[7] + 0
local last = 7
repeat
  local cost_1 = ARGV[1] + 0
  if cost_1 > 0 then
    local key, period, cost, over, tolerance = KEYS[1], ARGV[6] + 0, cost_1, ARGV[2] + 0, ARGV[5] + 0
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
      if stored.err and not string.find(stored.err, 'WRONGTYPE', 1, true) then return stored end
      call('DEL', key)
    end
    local back, known, gone = cost * rate, 0, false
    if over > 0 then
      if charged >= ends - period then
        known = math.min(cost, recent)
        recent = recent - known
      elseif charged >= ends - 2 * period then
        known = math.min(cost, older)
        older = older - known
      end
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
  charged = ARGV[last + 2]
  if charged then
    ARGV[1], charged, last = ARGV[last + 1], charged + 0, last + 2
  end
until not charged
return 0
