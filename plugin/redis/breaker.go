package redis

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
// probe is due after each pause (M. Nygard, "Release It!").
type breaker struct {
	limit     int64 // how many failures open it
	pauses    pauses
	state     BreakerState
	failures  int64 // consecutive ones
	dueMicros int64 // when the next probe is due, while open
}

// fail counts one failure and says whether the breaker is to open.
func (b *breaker) fail() bool {
	b.failures++
	return b.state == Closed && b.failures >= b.limit
}

// succeed ends a row of failures. Only a decided request makes the pauses short
// again, not a probe: where probes succeed but requests do not, the breaker
// would open and close at the fastest pace for ever.
func (b *breaker) succeed() {
	if b.state == Closed {
		b.failures = 0
		b.pauses.reset()
	}
}

// open starts the next pause.
func (b *breaker) open(nowMicros int64) {
	b.state = Open
	b.dueMicros = nowMicros + b.pauses.next()
}

// close ends the outage.
func (b *breaker) close() { b.state, b.failures = Closed, 0 }
