-- What an operator has set for an identity, in a rule with overrides: block, free, or
-- a factor for its limits. It is read before anything else.
--
-- KEYS[1]  the override's key; the penalty's follows, if the rule has one
-- ARGV[1]  the factor that the limits' arguments were made for, in thousandths; it is
--          the last argument, and missing where there is none
-- Reply    last of all 1 if the key holds what is no override, else nothing. In place
--          of the limits' integers, and nothing was charged:
--          now, 0, -1    free
--          now, 1, left  blocked, for so long (us; -1 without end)
--          now, factor   the limits have another factor (thousandths)
--          now, 3, 0     the rule has no limits; 1 if the key holds what is no override
-- State    STRING: "block", "free", or "x" and a number of up to four digits and three
--          decimals, from 0.001 to 1000. Anything else counts as no key, and so does
--          a key of another type.
-- TTL      the operator's
--
-- compose.go makes scripts of the sections below: [1] stands for the first of the
-- rule's own keys and arguments, which follow those of the limits; an arrow for another
-- section.

--- read
local ignored, factor
do
  local override = redis.pcall('GET', KEYS[1])
  if override == 'free' then
    --> lift
    return {now, 0, -1}
  elseif override == 'block' then
    local left = call('PTTL', KEYS[1])
    return {now, 1, left < 0 and -1 or left > 0 and left * 1000 or 1000}
  elseif override then
    if type(override) == 'table' then
      -- An error: a key of another type, or one that this user may not read.
      if not string.find(override.err, 'WRONGTYPE', 1, true) then return override end
      override = ''
    end
    local whole, part = string.match(override, '^x(%d%d?%d?%d?)(.*)$')
    local thousandths = 0
    if whole and (part == '' or string.find(part, '^%.%d%d?%d?$')) then
      thousandths = whole * 1000 + string.sub(part .. '000', 2, 4)
    end
    if thousandths < 1 or thousandths > 1000000 then
      ignored = 1
    elseif thousandths ~= 1000 then
      factor = string.format('%d', thousandths)
    end
  end
end

--- lift penalty
call('DEL', KEYS[2])

--- compare
if factor ~= ARGV[1] then return {now, (factor or 1000) + 0} end
