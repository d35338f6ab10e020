local call = redis.call
local cost = ARGV[1] + 0
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local nonce = ARGV[2]
if cost <= 0 then return 0 end
local charged = ARGV[3] + 0
local interval_1, tolerance_1 = ARGV[4] + 0, ARGV[5] + 0
local clock_1, lead_1, remaining_1, reset_1, retry_1 = now, 0, 0, 0, 0
do
  local wrap = 2^48
  if tolerance_1 > 2^47 then
    wrap = 2^53
  elseif interval_1 < 64 then
    wrap = interval_1 >= 2^-2 and 2^40 or interval_1 >= 2^-10 and 2^32 or 2^22
  end
  clock_1 = now % wrap
  local stored = call('GET', KEYS[1])
  if stored and #stored == 8 then
    lead_1 = (struct.unpack('<d', stored) - clock_1) % wrap
    if not (lead_1 + lead_1 <= wrap) or lead_1 > tolerance_1 and call('PTTL', KEYS[1]) < 0 then
      lead_1 = 0
    end
  end
  if lead_1 > 0 and now - charged < tolerance_1 then
    lead_1 = lead_1 - cost * interval_1
    if lead_1 > 0 then
      reset_1 = lead_1 + -lead_1 % 1
      local state = struct.pack('<d', clock_1 + lead_1)
      call('SET', KEYS[1], state, 'PXAT', string.format('%d', (now + reset_1 + 999) / 1000))
    else
      call('DEL', KEYS[1])
    end
  end
end
local size_2, n_2 = ARGV[7] + 0, ARGV[8] + 0
local start_2, counts_2, grows_2 = now - now % size_2, {}
local free_2, steps_2, remaining_2, reset_2, retry_2 = 0, size_2, 0, 0, 0
do
  local stored, from = call('GET', KEYS[2]), charged - charged % size_2
  if stored and #stored == 4 * n_2 + 12 and start_2 - from <= size_2 * n_2 then
    local layout = '<d' .. string.rep('I4', n_2 + 1)
    local old, counts, newest = {struct.unpack(layout, stored)}, {}, 2
    local place = 2 + (old[1] - from) / size_2
    if place >= 2 and place <= n_2 + 2 and old[place] then
      old[place] = old[place] > cost and old[place] - cost or 0
      while old[newest] == 0 and newest < n_2 + 2 do newest = newest + 1 end
      if old[newest] > 0 then
        for i = 0, n_2 do counts[i + 1] = newest + i <= n_2 + 2 and old[newest + i] or 0 end
        local start = old[1] - size_2 * (newest - 2)
        local stop = string.format('%d', (start + size_2 * (n_2 + 1) + 999) / 1000)
        call('SET', KEYS[2], struct.pack(layout, start, unpack(counts)), 'PXAT', stop)
      else
        call('DEL', KEYS[2])
      end
    end
  end
end
local limit_3, window_3 = ARGV[9] + 0, ARGV[10] + 0
local used_3, remaining_3, reset_3, retry_3 = 0, 0, 0, 0
do
  local member = string.format('%d:', charged) .. nonce .. ':'
  for first = 1, cost, 4000 do
    local members, n = {}, 0
    for i = first, first + 3999 < cost and first + 3999 or cost do
      members[n + 1], n = member .. i, n + 1
    end
    call('ZREM', KEYS[3], unpack(members, 1, n))
  end
  local newest = call('ZRANGE', KEYS[3], -1, -1, 'WITHSCORES')[2]
  if newest then
    call('PEXPIREAT', KEYS[3], string.format('%d', (newest + window_3 + 999) / 1000))
  end
end
return 0
