-- What an operator has set for an identity, in a rule with overrides: block, free, or
-- a factor for its limits. It is read before anything else.
--
-- KEYS[1]  the override's key; the penalty's follows, if the rule has one
-- ARGV[1]  the factor that the limits' arguments were made for, in thousandths; it is
--          the last argument, and missing where there is none
-- Reply    last of all 1 if the key holds what is no override, else nothing. In place
--          of the limits' integers, and nothing was charged, a marker below 0 and a value:
--          now, -1, 0       free
--          now, -2, left    blocked, for so long (us; -1 without end)
--          now, -4, 0       the rule has no limits; 1 if the key holds what is no override
--          now, -5, factor  the limits have another factor (thousandths)
--          Limits never begin with a number below 0, however many integers they answer.
-- State    STRING: "block", "free", or "x" and a number of up to four digits and three
--          decimals, from 0.001 to 1000. Anything else counts as no key, and so does
--          a key of another type. It is the operator's, and stays.
-- TTL      the operator's
--
-- compose.go makes scripts of the functions below: see there how it binds what they
-- take, and keeps what they return.

local function read(key, penalty_key)
  local ignored, factor
  do
    local override = try('GET', key)
    if override == 'free' then
      if penalty_key then call('DEL', penalty_key) end
      return {now, -1, 0}
    elseif override == 'block' then
      local left = call('PTTL', key)
      return {now, -2, left < 0 and -1 or left > 0 and left * 1000 or 1000}
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
  return ignored, factor
end

local function compare(factor, sized)
  if factor ~= sized then return {now, -5, (factor or 1000) + 0} end
end
