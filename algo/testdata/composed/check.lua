local call = redis.call
local cost = ARGV[1] + 0
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local nonce = ARGV[2]
local interval_1, tolerance_1 = ARGV[3] + 0, ARGV[4] + 0
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
  local early = lead_1 + cost * interval_1 - tolerance_1
  if early > 0 then
    retry_1 = cost * interval_1 > tolerance_1 and -1 or early + -early % 1
  end
end
local size_2, n_2 = ARGV[6] + 0, ARGV[7] + 0
local start_2, counts_2, grows_2 = now - now % size_2, {}
local free_2, steps_2, remaining_2, reset_2, retry_2 = 0, size_2, 0, 0, 0
do
  local stored, whole, part_2 = call('GET', KEYS[2]), 0, 0
  if stored and #stored == 4 * n_2 + 12 then
    counts_2 = {struct.unpack('<d' .. string.rep('I4', n_2 + 1), stored)}
    local behind = (start_2 - counts_2[1]) / size_2 -- less than 0: the clock was set back
    grows_2 = behind == 0
    if behind ~= 0 then
      local old = counts_2
      counts_2 = {}
      for i = 2, n_2 + 2 do
        local place = i - behind
        counts_2[i] = place >= 2 and place <= n_2 + 2 and old[place] or 0
      end
    end
    local newest
    for i = 2, n_2 + 1 do
      local count = counts_2[i]
      if count > 0 then
        whole, newest = whole + count, newest or i
      end
    end
    part_2 = counts_2[n_2 + 2]
    if part_2 > 0 then newest = newest or n_2 + 2 end
    if newest then reset_2 = start_2 + size_2 * (n_2 + 3 - newest) - now end
  end
  local limit, step, off = ARGV[5] + 0, 1, now - start_2
  while limit * steps_2 > 2^52 do
    step = step + step
    steps_2 = (size_2 + -size_2 % step) / step
  end
  free_2 = (limit - whole) * steps_2 - part_2 * (steps_2 - (off - off % step) / step)
  if free_2 < cost * steps_2 then retry_2 = -1 end
  local room, wait = limit - cost
  if retry_2 < 0 and room >= 0 then
    local i = 2
    while i < n_2 + 2 and room >= counts_2[i] do
      room, i = room - counts_2[i], i + 1
    end
    part_2, wait = counts_2[i], size_2 * (n_2 + 2 - i)
  end
  if wait then
    local stay = room * steps_2 / part_2
    local leave = (steps_2 - (stay - stay % 1)) * step
    retry_2 = wait + (leave < size_2 and leave or size_2) - off
  end
end
local limit_3, window_3 = ARGV[8] + 0, ARGV[9] + 0
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
    local state = struct.pack('<d', clock_1 + lead_1)
    call('SET', KEYS[1], state, 'PXAT', string.format('%d', (now + reset_1 + 999) / 1000))
  end
  do
    local stop = start_2 + size_2 * (n_2 + 1)
    free_2 = free_2 - cost * steps_2
    remaining_2, reset_2 = (free_2 - free_2 % steps_2) / steps_2, stop - now
    if grows_2 then
      call('SETRANGE', KEYS[2], 8, struct.pack('<I4', counts_2[2] + cost))
    else
      counts_2[1], counts_2[2] = start_2, (counts_2[2] or 0) + cost
      for i = 3, n_2 + 2 do counts_2[i] = counts_2[i] or 0 end
      local state = struct.pack('<d' .. string.rep('I4', n_2 + 1), unpack(counts_2, 1, n_2 + 2))
      call('SET', KEYS[2], state, 'PXAT', string.format('%d', (stop + 999) / 1000))
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
