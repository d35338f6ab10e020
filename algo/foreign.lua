-- What every script does about a key, read as stored, that holds no state of ours: one of
-- another type, or of a length that no state has. It is dropped, so that it counts as no
-- key from now on. Any other error of reading it is the script's own.

local function foreign(key, stored)
  if stored.err and not string.find(stored.err, 'WRONGTYPE', 1, true) then return stored end
  call('DEL', key)
end
