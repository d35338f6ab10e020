local call, try, KEYS, ARGV = redis.call, redis.pcall, KEYS, ARGV
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local key, ttl = KEYS[1], ARGV[1] + 0
local stop = string.format('%d', now + ttl)
local added, extra = 0, 0
for i = 2, #ARGV, 2 do
  local stored = try('ZADD', key, stop, ARGV[i] .. ':' .. ARGV[i + 1])
  if type(stored) == 'table' then
    if stored.err and not string.find(stored.err, 'WRONGTYPE', 1, true) then return stored end
    call('DEL', key)
    stored = call('ZADD', key, stop, ARGV[i] .. ':' .. ARGV[i + 1])
  end
  if stored == 1 then
    added, extra = added + 1, extra + ARGV[i + 1] - 1
  end
end
if extra > 0 then call('ZINCRBY', key, 0 - extra, '') end
local last = call('ZRANGE', key, -1, -1, 'WITHSCORES')[2]
call('PEXPIREAT', key, string.format('%d', math.ceil(last / 1000)))
return added
