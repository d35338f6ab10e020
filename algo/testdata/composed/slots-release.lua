local call = redis.call
local gone = 0
for i = 1, #ARGV, 2 do
  if call('ZREM', KEYS[1], ARGV[i] .. ':' .. ARGV[i + 1]) == 0 then
    gone = gone + 1
  elseif ARGV[i + 1] + 0 > 1 and call('ZINCRBY', KEYS[1], ARGV[i + 1] - 1, '') + 0 == 0 then
    call('ZREM', KEYS[1], '')
  end
end
return gone
