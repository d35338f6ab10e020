package redis

import "github.com/sluiceproxy/sluice/plugin/config"

// BreakerState is the state of the circuit breaker around Redis.
type BreakerState uint8

// The states. Requests go to Redis only while the breaker is Closed; HalfOpen
// lasts for the one probe that decides what comes next.
const (
	Closed BreakerState = iota
	HalfOpen
	Open
)

// breaker opens after a number of consecutive failures. While it is open, a
// probe is due after each pause; pauses double from the shortest to the longest
// and are shortened by up to a quarter at random, so that the workers of a mesh
// do not probe in step (M. Nygard, "Release It!", and
// https://aws.amazon.com/builders-library/timeouts-retries-and-backoff-with-jitter/).
type breaker struct {
	limits      config.Breaker
	random      *random
	state       BreakerState
	failures    int64
	pauseMicros int64 // the pause before jitter; 0 while closed
	dueMicros   int64 // when the next probe is due, while open
}

// fail counts one failure and says whether it opened the breaker.
func (b *breaker) fail(nowMicros int64) (opened bool) {
	b.failures++
	if b.state == Closed && b.failures >= b.limits.Failures {
		b.open(nowMicros)
		return true
	}
	return false
}

// open starts the next pause.
func (b *breaker) open(nowMicros int64) {
	b.state = Open
	b.pauseMicros = min(max(2*b.pauseMicros, b.limits.MinOpenMicros), b.limits.MaxOpenMicros)
	pause := max(b.pauseMicros-b.random.below(b.pauseMicros/4+1), b.limits.MinOpenMicros)
	b.dueMicros = nowMicros + pause
}

// close ends the outage.
func (b *breaker) close() {
	b.state, b.failures, b.pauseMicros = Closed, 0, 0
}

// random is xorshift64*, for jitter and for nonces that differ between workers
// (G. Marsaglia, "Xorshift RNGs", 2003; S. Vigna, 2016).
type random struct{ state uint64 }

func (r *random) next() uint64 {
	r.state ^= r.state >> 12
	r.state ^= r.state << 25
	r.state ^= r.state >> 27
	return r.state * 0x2545f4914f6cdd1d
}

// below is a number from 0 to n-1, for n of at least 1.
func (r *random) below(n int64) int64 {
	return int64(r.next() % uint64(n))
}
