package redis

import "math/rand/v2"

// BreakerState is the state of the circuit breaker around Redis.
type BreakerState uint8

// The states. Requests go to Redis only while the breaker is Closed; HalfOpen
// lasts for the one probe that decides what comes next.
const (
	Closed BreakerState = iota
	HalfOpen
	Open
)

// breaker opens after a number of consecutive failures, unless they are error
// replies and fewer than what else is decided. While it is open, a probe is due after
// each pause (M. Nygard, "Release It!").
type breaker struct {
	limit     int64 // how many failures open it
	pauses    pauses
	state     BreakerState
	dueMicros int64 // when the next probe is due, while open
	probes    int   // since it opened

	row     int64 // consecutive failures
	silent  int64 // those among them without a reply
	decided recent

	decidedTag []byte // of the last check that was decided in time
	failedTag  []byte // of the last check that was not
}

// recent counts what happened in the last second, or up to a tenth less.
type recent struct {
	counts [10]int64 // by the tenth of a second
	tenth  int64     // the one that was counted in last
}

const tenthMicros = 100_000

// advance forgets counts that are a second old, so that the rest are of the last second.
func (r *recent) advance(nowMicros int64) {
	tenth := nowMicros / tenthMicros
	if tenth-r.tenth >= int64(len(r.counts)) {
		r.counts = [10]int64{}
		r.tenth = tenth
	}
	for r.tenth < tenth {
		r.tenth++
		r.counts[r.tenth%int64(len(r.counts))] = 0
	}
}

// pauses are the times between attempts that fail: they double from the shortest
// to the longest and vary by a fifth at random, never beyond these two, so that
// the workers of a mesh do not try in step
// (https://aws.amazon.com/builders-library/timeouts-retries-and-backoff-with-jitter/).
type pauses struct {
	shortestMicros, longestMicros int64
	random                        *rand.PCG
	baseMicros                    int64 // the last pause without its jitter; 0: none yet
}

// next is the length of another pause.
func (p *pauses) next() int64 {
	p.baseMicros = min(max(2*p.baseMicros, p.shortestMicros), p.longestMicros)
	high := min(p.baseMicros+p.baseMicros/4, p.longestMicros)
	low := max(high-high/5, p.shortestMicros)
	return low + below(p.random, high-low+1)
}

// reset makes the next pause the shortest.
func (p *pauses) reset() { p.baseMicros = 0 }

// below is a random number from 0 to n-1, for n of at least 1.
func below(random *rand.PCG, n int64) int64 { return int64(random.Uint64() % uint64(n)) }
