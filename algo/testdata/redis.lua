-- A stand-in for Redis under Lua 5.4, where a number is an integer or a float: what
-- a Redis whose scripts run under it, such as Dragonfly, does not take, is an error
-- here. It speaks Redis' protocol (RESP2) on its standard input and output, and
-- knows three commands: SCRIPT LOAD, EVALSHA, and CLOCK, which sets the time in
-- microseconds. Between them time stands still.

local keys, micros = {}, 0

-- What a key holds, unless its time is over.
local function find(key)
  local entry = keys[key]
  if entry and entry.expires and entry.expires < micros // 1000 then
    keys[key] = nil
    return nil
  end
  return entry
end

local function whole(text)
  return math.tointeger(tonumber(text)) or error('not a whole number: ' .. tostring(text))
end

local function change(key, by)
  local entry = find(key)
  entry.value = string.format('%d', whole(entry.value) + by)
  return whole(entry.value)
end

-- Sorted sets are lists of {score, member}, in the order of both.
local function before(a, b)
  return a.score < b.score or a.score == b.score and a.member < b.member
end

local function add(entries, list, entry, scores)
  list[#list + 1] = entry.member
  if scores then list[#list + 1] = string.format('%d', entry.score) end
end

local function bounds(from, to)
  local open = from:sub(1, 1) == '('
  local low = from == '-inf' and math.mininteger or whole(open and from:sub(2) or from)
  local high = to == '+inf' and math.maxinteger or whole(to)
  return function(entry)
    return (open and entry.score > low or not open and entry.score >= low) and entry.score <= high
  end
end

local commands = {}

function commands.TIME()
  return {string.format('%d', micros // 1000000), string.format('%d', micros % 1000000)}
end

function commands.GET(key)
  local entry = find(key)
  return entry and entry.value or false
end

function commands.SET(key, value, option, at)
  local entry = {value = value}
  if option == 'PXAT' then
    entry.expires = whole(at)
  elseif option == 'KEEPTTL' then
    entry.expires = find(key).expires
  end
  keys[key] = entry
end

function commands.SETRANGE(key, offset, value)
  local entry, first = find(key), whole(offset)
  entry.value = entry.value:sub(1, first) .. value .. entry.value:sub(first + #value + 1)
end

function commands.INCRBY(key, by) return change(key, whole(by)) end

function commands.DECRBY(key, by) return change(key, -whole(by)) end

function commands.DEL(key) keys[key] = nil end

function commands.PTTL(key)
  local entry = find(key)
  if not entry then return -2 end
  return entry.expires and entry.expires - micros // 1000 or -1
end

function commands.PEXPIRETIME(key)
  local entry = find(key)
  return not entry and -2 or entry.expires or -1
end

function commands.PEXPIREAT(key, at)
  local entry = find(key)
  if entry then entry.expires = whole(at) end
end

function commands.ZADD(key, score, member, ...)
  local entry = find(key) or {}
  local added = 1 - commands.ZREM(key, member)
  keys[key] = entry
  entry[#entry + 1] = {score = whole(score), member = member}
  table.sort(entry, before)
  if ... then added = added + commands.ZADD(key, ...) end
  return added
end

function commands.ZREM(key, member)
  local entry, removed = find(key) or {}, 0
  for i, e in ipairs(entry) do
    if e.member == member then
      table.remove(entry, i)
      removed = 1
      break
    end
  end
  if #entry == 0 then keys[key] = nil end
  return removed
end

function commands.ZINCRBY(key, by, member)
  local score = 0
  for _, e in ipairs(find(key) or {}) do
    if e.member == member then score = e.score end
  end
  score = score + whole(by)
  commands.ZADD(key, score, member)
  return string.format('%d', score)
end

function commands.ZCARD(key) return #(find(key) or {}) end

function commands.ZRANGE(key, first, last, scores)
  local entry, list = find(key) or {}, {}
  local function at(index) return whole(index) < 0 and #entry + 1 + whole(index) or 1 + whole(index) end
  for i = math.max(at(first), 1), math.min(at(last), #entry) do add(entry, list, entry[i], scores) end
  return list
end

function commands.ZRANGEBYSCORE(key, from, to, ...)
  local options, list, within = {...}, {}, bounds(from, to)
  local scores, skip, count = options[1] == 'WITHSCORES', 0, math.maxinteger
  local limit = scores and 2 or 1
  if options[limit] == 'LIMIT' then skip, count = whole(options[limit + 1]), whole(options[limit + 2]) end
  for _, e in ipairs(find(key) or {}) do
    if within(e) then
      if skip > 0 then
        skip = skip - 1
      elseif count > 0 then
        count = count - 1
        add(nil, list, e, scores)
      end
    end
  end
  return list
end

function commands.ZCOUNT(key, from, to) return #commands.ZRANGEBYSCORE(key, from, to) end

function commands.ZREMRANGEBYSCORE(key, from, to)
  local entry, within = find(key) or {}, bounds(from, to)
  local size = #entry
  for i = size, 1, -1 do
    if within(entry[i]) then table.remove(entry, i) end
  end
  if #entry == 0 then keys[key] = nil end
  return size - #entry
end

-- Redis' own struct library, of which the scripts use doubles and numbers of 32
-- bits. What it unpacks is never taken for an integer.
local struct = {}

function struct.pack(layout, ...)
  return string.pack(layout, ...)
end

function struct.unpack(layout, text, from)
  local values = table.pack(string.unpack(layout, text, from))
  for i = 1, values.n - 1 do values[i] = values[i] + 0.0 end
  return table.unpack(values, 1, values.n - 1)
end

local function call(name, ...)
  local args = {...}
  for i, arg in ipairs(args) do
    if math.type(arg) == 'float' then
      error(string.format('%s: argument %d is the float %s, which has no one spelling', name, i, arg))
    end
    args[i] = tostring(arg)
  end
  return commands[name](table.unpack(args))
end

local function pcall_(name, key, ...)
  local entry = find(key)
  local sorted = name:sub(1, 1) == 'Z'
  if entry and sorted == (entry.value ~= nil) then return {err = 'WRONGTYPE Operation against a key holding the wrong kind of value'} end
  return call(name, key, ...)
end

-- What a script may name; all else is an error, as in Redis.
local globals = setmetatable({
  redis = {call = call, pcall = pcall_}, struct = struct, string = string, math = math, table = {concat = table.concat, remove = table.remove},
  tonumber = tonumber, tostring = tostring, ipairs = ipairs, pairs = pairs, type = type,
}, {
  __index = function(_, name) error('no global variable ' .. name) end,
  __newindex = function(_, name) error('a new global variable ' .. name) end,
})

-- A reply in RESP2: an integer, or a list of integers.
-- https://redis.io/docs/latest/develop/reference/protocol-spec/
local function encode(value)
  if math.type(value) == 'integer' then return string.format(':%d\r\n', value) end
  if type(value) ~= 'table' then error(string.format('%s in a reply is no integer', value)) end
  local parts = {string.format('*%d\r\n', #value)}
  for i, element in ipairs(value) do parts[i + 1] = encode(element) end
  return table.concat(parts)
end

-- It computes no digests: the first EVALSHA of one is of the script that was loaded last.
local scripts, loaded, asked = {}, nil, {}

function asked.CLOCK(at)
  micros = whole(at)
  return '+OK\r\n'
end

function asked.SCRIPT(_, source)
  loaded = source
  return '+OK\r\n'
end

function asked.EVALSHA(digest, count, ...)
  scripts[digest] = scripts[digest] or assert(load(loaded, digest, 't', globals))
  rawset(globals, 'KEYS', {table.unpack({...}, 1, whole(count))})
  rawset(globals, 'ARGV', {select(whole(count) + 1, ...)})
  return encode(scripts[digest]())
end

for header in function() return io.read('L') end do -- "*2\r\n": a command of two words
  local words = {}
  for i = 1, whole(header:sub(2, -3)) do
    words[i] = io.read(whole(io.read('L'):sub(2, -3))) -- behind "$3\r\n": a word of three bytes
    io.read(2)
  end
  local ok, reply = pcall(asked[words[1]:upper()], table.unpack(words, 2))
  io.write(ok and reply or '-ERR ' .. tostring(reply):gsub('[\r\n]', ' ') .. '\r\n')
  io.flush()
end
