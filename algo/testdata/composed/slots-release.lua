local call, try, KEYS, ARGV = redis.call, redis.pcall, KEYS, ARGV
local key = KEYS[1]
local gone = 0
for i = 1, #ARGV, 2 do
  local stored = try('ZREM', key, ARGV[i] .. ':' .. ARGV[i + 1])
  if stored ~= 1 then
    gone = gone + 1
    if stored ~= 0 then
      if stored.err and not string.find(stored.err, 'WRONGTYPE', 1, true) then return stored end
      call('DEL', key)
    end
  elseif ARGV[i + 1] + 0 > 1 and call('ZINCRBY', key, ARGV[i + 1] - 1, '') + 0 == 0 then
    call('ZREM', key, '')
  end
end
return gone
