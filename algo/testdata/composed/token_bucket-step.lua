local call, try, KEYS, ARGV = redis.call, redis.pcall, KEYS, ARGV
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local window, key, limit, capacity, cost = ARGV[3] + 0, KEYS[1], ARGV[2] + 0, ARGV[4] + 0, ARGV[1] + 0
local start = now - now % window
local used, stored = 0, try('GET', key)
if stored and #stored == 24 then
  local units, owed, at = struct.unpack('<ddd', stored)
  if units > 0 and units < 2^53 and owed >= 0 and owed <= units then
    local missing = units
    if missing > capacity then
      missing = math.min(missing - owed, capacity) + math.min(owed, capacity)
    end
    if at > start then -- the clock was set back
      at = start
      local stop = start + math.min(math.ceil(units / math.max(limit, 1)) * window, 2^52)
      local state = struct.pack('<ddd', units, owed, at)
      call('SET', key, state, 'PXAT', string.format('%d', math.floor(stop / 1000)))
    end
    missing = math.ceil(missing - math.floor((start - at) / window) * limit)
    if missing > 0 then used = missing end
  end
elseif stored then
  if stored.err and not string.find(stored.err, 'WRONGTYPE', 1, true) then return stored end
  call('DEL', key)
end
local remaining, reset, retry = 0, 0, 0
if used < capacity then remaining = capacity - used end
if used > 0 then reset = start + math.ceil(used / limit) * window - now end
local before = reset
if cost > capacity then
  retry = -1
elseif cost > remaining then
  retry = start + math.ceil((used + cost - capacity) / limit) * window - now
end
local reset_1 = reset
if retry == 0 and cost > 0 then
  used = used + cost
  remaining = remaining - cost
  local stop = start + math.ceil(used / limit) * window
  local reset = stop - now
  call('SET', key, struct.pack('<ddd', used, 0, start), 'PXAT', string.format('%d', stop / 1000))
  reset_1 = reset
end
return {now, remaining, reset_1, retry, before}
