package algo

// As an unsigned number Never is the longest of all waits.

// ShorterWait is the shorter of two waits.
func ShorterWait(a, b int64) int64 { return int64(min(uint64(a), uint64(b))) }

// LongerWait is the longer of two waits.
func LongerWait(a, b int64) int64 { return int64(max(uint64(a), uint64(b))) }

// LongestWait is for how long the decisions reject the same cost: before the longest of their waits
// is over, it cannot be admitted. It is 0 if none of them rejects, and Never if no wait helps.
func LongestWait(decisions []Decision) (micros int64) {
	for i := range decisions {
		if d := &decisions[i]; !d.Allowed {
			micros = LongerWait(micros, d.RetryAfterMicros)
		}
	}
	return micros
}
