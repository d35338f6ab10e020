package algo

import (
	"errors"
	"strings"
)

// OnClock is a script that reads the time, seconds and microseconds, from the last but two and the
// last but one of its arguments, in place of Redis' clock. So vectors are replayed by the very
// scripts that decide requests.
func OnClock(source string) (string, error) {
	if strings.Count(source, clockLine) != 1 {
		return "", errors.New("the script does not read the clock once")
	}
	return strings.Replace(source, clockLine,
		"local time = {table.remove(ARGV, #ARGV - 2), table.remove(ARGV, #ARGV - 1)}\n", 1), nil
}

// clockLine reads the clock. It stands alone, so that a test can replay a script
// at any time.
const clockLine = "local time = call('TIME')\n"

const timeClock = clockLine + "local now = time[1] * 1000000 + time[2]\n"

// keyClock is the clock of a Redis whose scripts may not call TIME: the time until
// a key expires tells now, if it is known when it does. The key's value is that
// time. Without such a key, one that expires in the year 9999 first tells now. It is
// replaced at once by one that expires in a minute, so that nothing remains of an
// identity that stays away.
const keyClock = `local clock = KEYS[#KEYS]
local ends, left = tonumber(try('GET', clock)), call('PTTL', clock)
if not ends or left <= 0 then
  call('SET', clock, '', 'PXAT', '253402300799000')
  ends = 253402300799000 - call('PTTL', clock) + 60000
  call('SET', clock, string.format('%d', ends), 'PXAT', string.format('%d', ends))
  left = call('PTTL', clock)
end
local now = (ends - left) * 1000
`

// ClockSuffix follows the hash tag in the key that Script.WithoutTime takes in addition to
// the limits' keys.
const ClockSuffix = ":clock"
