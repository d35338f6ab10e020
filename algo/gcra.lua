-- GCRA, the generic cell rate algorithm (ITU-T Recommendation I.371, annex A):
-- units that keep to the rate arrive `interval` apart; who comes early runs
-- ahead of that schedule, by `tolerance` at most.
--
-- KEYS[1]  the limit's key
-- ARGV[1]  cost, in units
-- ARGV[3]  interval: the emission interval, us for one unit
-- ARGV[4]  tolerance: interval * burst, us
-- ARGV[5]  wrap: the modulus of the clock, us, a power of two (see bucket.go)
-- Reply    remaining (units), reset_after (us), retry_after (us; 0 admitted,
--          -1 never)
-- State    STRING, a number: the theoretical arrival time (TAT) at which a unit
--          would be right on schedule, us on the wrapped clock
-- TTL      until the TAT; from then on the key says no more than no key
--
-- `now` is Redis' time in us. A TAT of the past, or what is no number, counts
-- as no key. A lead above the tolerance was left by a larger burst: it passes
-- with time, and with the key's own expiry; without one it is not ours.

--- constants
local interval_1, tolerance_1, wrap_1 = ARGV[3] + 0, ARGV[4] + 0, ARGV[5] + 0

--- load
local now_1, lead_1 = now % wrap_1, 0
do
  local tat = tonumber(call('GET', KEYS[1]))
  if tat then
    lead_1 = (tat - now_1) % wrap_1
    if not (lead_1 + lead_1 <= wrap_1) or lead_1 > tolerance_1 and call('PTTL', KEYS[1]) < 0 then
      lead_1 = 0
    end
  end
end

--- check
local remaining_1, reset_1, retry_1 = 0, 0, 0
do
  local early = lead_1 + cost * interval_1 - tolerance_1
  if early > 0 then
    retry_1 = cost * interval_1 > tolerance_1 and -1 or early + -early % 1
  end
end

--- charge
lead_1 = lead_1 + cost * interval_1
reset_1 = lead_1 + -lead_1 % 1
do
  local tat, room = now + reset_1, tolerance_1 - lead_1
  call('SET', KEYS[1], now_1 + lead_1, 'PXAT', (tat + -tat % 1000) / 1000)
  remaining_1 = (room - room % interval_1) / interval_1
end

--- report
reset_1 = lead_1 + -lead_1 % 1
if lead_1 < tolerance_1 then
  local room = tolerance_1 - lead_1
  remaining_1 = (room - room % interval_1) / interval_1
end

--- refund
-- After a whole tolerance, time itself has given back all that was charged.
do
  local tat, clock = tonumber(call('GET', KEYS[1])), now % wrap_1
  if tat and now - charged < tolerance_1 then
    local lead = (tat - clock) % wrap_1
    if lead > 0 and lead + lead <= wrap_1 then
      lead = lead - cost * interval_1
      if lead > 0 then
        tat = now + lead + -lead % 1
        call('SET', KEYS[1], clock + lead, 'PXAT', (tat + -tat % 1000) / 1000)
      else
        call('DEL', KEYS[1])
      end
    end
  end
end
