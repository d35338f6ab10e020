local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local stop = string.format('%d', now + ARGV[1])
local added, extra = 0, 0
for i = 2, #ARGV, 2 do
  if call('ZADD', KEYS[1], stop, ARGV[i] .. ':' .. ARGV[i + 1]) == 1 then
    added, extra = added + 1, extra + ARGV[i + 1] - 1
  end
end
if extra > 0 then call('ZINCRBY', KEYS[1], 0 - extra, '') end
local last = call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')[2]
call('PEXPIREAT', KEYS[1], string.format('%d', math.ceil(last / 1000)))
return added
