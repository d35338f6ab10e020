-- What an operator has set for an identity, in a rule with overrides: block, free, or a
-- value that changes its limits. It is read before anything else.
--
-- KEYS[1]  the override's key; the penalty's follows, if the rule has one
-- ARGV[1]  the value that the call was made for; it is the last argument, and missing
--          where there is none
-- Reply    last of all 1 if the key holds what cannot be a value, else nothing. In place
--          of the limits' integers, and nothing was charged, a marker below 0 and a number:
--          now, -1, left         free, for so long (us; -1 without end)
--          now, -2, left         blocked, for so long
--          now, -4, 0            the rule has no limits; 1 if the key holds what cannot be
--          now, -6, left, value  the key has another value than the call was made for
--          Limits never begin with a number below 0, however many integers they answer.
-- State    STRING: "block", "free", or any text of up to 1000 bytes. The worker reads that:
--          the script compares. Anything else counts as no key, and so does a key of another
--          type. It is the operator's, and stays.
-- TTL      the operator's
--
-- compose.go makes scripts of the functions below: see there how it binds what they
-- take, and keeps what they return.

local function read(key, made_for, penalty_key)
  local ignored
  local value = try('GET', key) or nil
  if value ~= made_for then
    if value == 'free' then
      if penalty_key then call('DEL', penalty_key) end
      local left = call('PTTL', key)
      return {now, -1, left < 0 and -1 or left > 0 and left * 1000 or 1000}
    elseif value == 'block' then
      local left = call('PTTL', key)
      return {now, -2, left < 0 and -1 or left > 0 and left * 1000 or 1000}
    elseif type(value) == 'table' then
      -- An error: a key of another type, or one that this user may not read.
      if not string.find(value.err, 'WRONGTYPE', 1, true) then return value end
      ignored, value = 1, nil
    elseif value and (value == '' or #value > 1000) then
      ignored, value = 1, nil
    end
  end
  return ignored, value
end

local function compare(key, value, made_for)
  if value ~= made_for then
    local left = call('PTTL', key)
    return {now, -6, left < 0 and -1 or left > 0 and left * 1000 or 1000, value or ''}
  end
end
