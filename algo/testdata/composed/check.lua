local call = redis.call
local cost = ARGV[1] + 0
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local nonce = ARGV[2]
local interval_1, tolerance_1, wrap_1 = ARGV[3] + 0, ARGV[4] + 0, ARGV[5] + 0
local clock_1, lead_1, remaining_1, reset_1, retry_1 = now % wrap_1, 0, 0, 0, 0
do
  local tat = tonumber(call('GET', KEYS[1]))
  if tat then
    lead_1 = (tat - clock_1) % wrap_1
    if not (lead_1 + lead_1 <= wrap_1) or lead_1 > tolerance_1 and call('PTTL', KEYS[1]) < 0 then
      lead_1 = 0
    end
  end
  local early = lead_1 + cost * interval_1 - tolerance_1
  if early > 0 then
    retry_1 = cost * interval_1 > tolerance_1 and -1 or early + -early % 1
  end
end
local limit_2, size_2 = ARGV[6] + 0, ARGV[7] + 0
local window_2, start_2 = size_2 * ARGV[8], now - now % size_2
local field_2, here_2, free_2, steps_2 = string.format('%d', start_2)
local remaining_2, reset_2, retry_2 = 0, 0, 0
do
  local hash = call('HGETALL', KEYS[2])
  local whole, part = 0, 0
  for i = 1, #hash, 2 do
    local age, count = start_2 - (tonumber(hash[i]) or 0), tonumber(hash[i + 1])
    if count and age >= 0 and age <= window_2 and age % size_2 == 0 then
      if age == 0 then here_2 = count end
      if age < window_2 then whole = whole + count else part = count end
      local left = start_2 - age + size_2 + window_2 - now
      if left > reset_2 then reset_2 = left end
    end
  end
  if not (whole >= 0 and part >= 0) then
    here_2, whole, part = nil, 0, 0
  end
  local step, off = 1, now - start_2
  steps_2 = size_2
  while limit_2 * steps_2 > 2^52 do
    step = step + step
    steps_2 = (size_2 + -size_2 % step) / step
  end
  free_2 = (limit_2 - whole) * steps_2 - part * (steps_2 - (off - off % step) / step)
  if free_2 < cost * steps_2 then retry_2 = -1 end
  local room, wait = limit_2 - cost
  if retry_2 < 0 and room >= 0 then
    local counts, age = {}, 0
    for i = 1, #hash, 2 do
      counts[start_2 - (tonumber(hash[i]) or 0)] = tonumber(hash[i + 1])
    end
    while age < window_2 and room >= (counts[age] or 0) do
      room = room - (counts[age] or 0)
      age = age + size_2
    end
    part, wait = counts[age], window_2 - age
  end
  if wait then
    local stay = room * steps_2 / part
    local leave = (steps_2 - (stay - stay % 1)) * step
    retry_2 = wait + (leave < size_2 and leave or size_2) - off
  end
end
local limit_3, window_3 = ARGV[9] + 0, ARGV[10] + 0
local used_3, remaining_3, reset_3, retry_3 = 0, 0, 0, 0
do
  used_3 = call('ZCOUNT', KEYS[3], string.format('(%d', now - window_3), '+inf')
  if used_3 + cost > limit_3 then
    retry_3 = -1
    if cost <= limit_3 then
      local rank = cost - limit_3 - 1
      retry_3 = call('ZRANGE', KEYS[3], rank, rank, 'WITHSCORES')[2] + window_3 - now
    end
  end
end
if cost > 0 and retry_1 == 0 and retry_2 == 0 and retry_3 == 0 then
  do
    lead_1 = lead_1 + cost * interval_1
    reset_1 = lead_1 + -lead_1 % 1
    local room = tolerance_1 - lead_1
    remaining_1 = (room - room % interval_1) / interval_1
    call('SET', KEYS[1], clock_1 + lead_1, 'PXAT', string.format('%d', (now + reset_1 + 999) / 1000))
  end
  do
    local stop = start_2 + size_2 + window_2
    free_2 = free_2 - cost * steps_2
    remaining_2, reset_2 = (free_2 - free_2 % steps_2) / steps_2, stop - now
    call('HSET', KEYS[2], field_2, (here_2 or 0) + cost)
    if not here_2 then
      for _, field in ipairs(call('HKEYS', KEYS[2])) do
        local age = start_2 - (tonumber(field) or 0)
        if not (age <= window_2) then call('HDEL', KEYS[2], field) end
      end
      call('PEXPIREAT', KEYS[2], string.format('%d', (stop + 999) / 1000))
    end
  end
  do
    remaining_3, reset_3 = limit_3 - used_3 - cost, window_3
    call('ZREMRANGEBYSCORE', KEYS[3], '-inf', string.format('%d', now - window_3))
    local score = string.format('%d', now)
    local member = score .. ':' .. nonce .. ':'
    for first = 1, cost, 2000 do
      local entries, n = {}, 0
      for i = first, first + 1999 < cost and first + 1999 or cost do
        entries[n + 1], entries[n + 2], n = score, member .. i, n + 2
      end
      call('ZADD', KEYS[3], unpack(entries, 1, n))
    end
    call('PEXPIREAT', KEYS[3], string.format('%d', (now + window_3 + 999) / 1000))
  end
else
  do
    reset_1 = lead_1 + -lead_1 % 1
    local room = tolerance_1 - lead_1
    if room > 0 then remaining_1 = (room - room % interval_1) / interval_1 end
  end
  do
    if free_2 > 0 then remaining_2 = (free_2 - free_2 % steps_2) / steps_2 end
  end
  do
    if used_3 > 0 then
      reset_3 = call('ZRANGE', KEYS[3], -1, -1, 'WITHSCORES')[2] + window_3 - now
    end
    if used_3 < limit_3 then remaining_3 = limit_3 - used_3 end
  end
end
return {now, remaining_1, reset_1, retry_1, remaining_2, reset_2, retry_2, remaining_3, reset_3, retry_3}
