package algo

// The State of a sliding_window_counter is pairs, oldest first.
const (
	pairTime  = iota // start of a sub-window, us since the Unix epoch
	pairUnits        // units charged in it
	pairLen
)

// unitsAt returns the units of a time.
func unitsAt(s State, micros int64) int64 {
	for ; len(s) >= pairLen; s = s[pairLen:] {
		if s[pairTime] == micros {
			return s[pairUnits]
		}
	}
	return 0
}

// addUnits adds units at a time to a State of pairs that is sorted by time.
func addUnits(s State, micros, units int64) State {
	i := len(s)
	for i > 0 && s[i-pairLen+pairTime] > micros { // the clock was set back
		i -= pairLen
	}
	if i > 0 && s[i-pairLen+pairTime] == micros {
		s[i-pairLen+pairUnits] += units
		return s
	}
	s = append(s, 0, 0)
	copy(s[i+pairLen:], s[i:])
	s[i+pairTime], s[i+pairUnits] = micros, units
	return s
}
