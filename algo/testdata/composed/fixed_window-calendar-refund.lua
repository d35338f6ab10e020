local call, try, KEYS, ARGV = redis.call, redis.pcall, KEYS, ARGV
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local start_1, stop_1
do
  local first, second, third, last = ARGV[3], ARGV[4], ARGV[5], ARGV[6]
  local start, stop = second + 0, third + 0
  if now < start then
    start, stop = first + 0, start
  elseif now >= stop then
    start, stop = stop, last + 0
  end
  if now < start or now >= stop then start, stop = 0, 0 end
  start_1, stop_1 = start, stop
end
local charged = ARGV[7] + 0
local last = 7
repeat
  local cost_1 = ARGV[1] + 0
  if cost_1 > 0 then
    local start, key, cost, units, stop = start_1, KEYS[1], cost_1, ARGV[1], stop_1
    local base = start / 60000000 % 2^22 * 2^31
    local used, stored = 0, try('GET', key)
    local number = tonumber(stored)
    if number then
      local count = number % 2147483648
      if number - count == base then
        used = count
      elseif #stored > 16 then
        number = nil
        if stored.err and not string.find(stored.err, 'WRONGTYPE', 1, true) then return stored end
        call('DEL', key)
      end
    elseif stored then
      if stored.err and not string.find(stored.err, 'WRONGTYPE', 1, true) then return stored end
      call('DEL', key)
    end
    if used > 0 and charged >= start and charged < stop then
      if used <= cost then
        call('DEL', key)
      elseif type(try('DECRBY', key, units)) == 'table' then
        call('SET', key, string.format('%d', base + used - cost), 'KEEPTTL')
      end
    end
  end
  if cost_1 < 0 then
    local start, key, cost, limit, stop = start_1, KEYS[1], cost_1, ARGV[2] + 0, stop_1
    local base = start / 60000000 % 2^22 * 2^31
    local used, stored = 0, try('GET', key)
    local number = tonumber(stored)
    if number then
      local count = number % 2147483648
      if number - count == base then
        used = count
      elseif #stored > 16 then
        number = nil
        if stored.err and not string.find(stored.err, 'WRONGTYPE', 1, true) then return stored end
        call('DEL', key)
      end
    elseif stored then
      if stored.err and not string.find(stored.err, 'WRONGTYPE', 1, true) then return stored end
      call('DEL', key)
    end
    local owed = math.min(-cost, 2 * limit - used)
    local own = not number or number - number % 2147483648 == base
    if owed > 0 and own and charged >= start and charged < stop then
      local units = string.format('%d', owed)
      if used == 0 or type(try('INCRBY', key, units)) == 'table' then
        local state = string.format('%d', base + used + owed)
        call('SET', key, state, 'PXAT', string.format('%d', stop / 1000))
      end
    end
  end
  charged = ARGV[last + 2]
  if charged then
    ARGV[1], charged, last = ARGV[last + 1], charged + 0, last + 2
  end
until not charged
return 0
