package algo

import "strconv"

// DurationUnits are the units of durations, the largest first: the order in which a sum
// names them.
var DurationUnits = [...]struct {
	Name   string
	Micros int64
}{{"d", 86400e6}, {"h", 3600e6}, {"m", 60e6}, {"s", 1e6}, {"ms", 1e3}}

// FormatDuration spells a whole number of milliseconds, given in microseconds,
// in the one canonical way: as the sum of its units, the largest first, so that
// "60s" and "1m" are both "1m", and "90s" is "1m30s".
func FormatDuration(micros int64) string {
	if micros < 1000 {
		return "0s"
	}
	var spelled []byte
	for _, unit := range DurationUnits {
		if count := micros / unit.Micros; count > 0 {
			spelled = append(strconv.AppendInt(spelled, count, 10), unit.Name...)
			micros -= count * unit.Micros
		}
	}
	return string(spelled)
}
