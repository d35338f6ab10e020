local call, try, KEYS, ARGV = redis.call, redis.pcall, KEYS, ARGV
local string = string
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local charged = ARGV[8] + 0
local gone_2 = 0
local cost_1 = ARGV[1] + 0
if cost_1 > 0 then
  local window, key, cost, units = ARGV[3] + 0, KEYS[1], cost_1, ARGV[1]
  local start = now - now % window
  local stop, base = start + window, start / window % 2^22 * 2^31
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
  local window, key, cost, limit = ARGV[3] + 0, KEYS[1], cost_1, ARGV[2] + 0
  local start = now - now % window
  local stop, base = start + window, start / window % 2^22 * 2^31
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
local cost_2 = ARGV[4] + 0
if cost_2 > 0 then
  local key, cost, units, nonce = KEYS[2], cost_2, ARGV[4], ARGV[5]
  local gone = 0
  local stored = try('ZREM', key, nonce .. ':' .. units)
  if stored ~= 1 then
    gone = 1
    if stored ~= 0 then
      if stored.err and not string.find(stored.err, 'WRONGTYPE', 1, true) then return stored end
      call('DEL', key)
    end
  elseif cost > 1 and call('ZINCRBY', key, cost - 1, '') + 0 == 0 then
    call('ZREM', key, '')
  end
  gone_2 = gone
end
return gone_2
