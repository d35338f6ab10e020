package redis

// stalledTimeouts is after how many timeouts without a reply to the oldest
// command a stream is taken for dead. Replies come in order, so one slow script
// delays all that was sent after it, on this connection and on any other, as
// Redis runs one at a time: to connect anew would help nothing, bring every
// worker's handshake at the worst moment, and lose the replies, by which late
// charges are given back. So a stream is not given up for one timeout; the
// breaker keeps requests from waiting for it.
//
// Bound: timeouts without a reply. Beyond it, the stream is given up. Protects requests from a dead
// connection.
const stalledTimeouts = 3

// A tick costs the worker, so a short timeout is looked at each minTickMicros at most; maxTickMicros
// keeps a long timeout from being overrun by much.
const (
	// Bound: us between ticks of a timeout. Below it, ticks come no sooner. Protects the worker.
	minTickMicros = 4_000
	// Bound: us between ticks while something waits. Beyond it, no tick is put off. Protects
	// requests from a timeout that ends late.
	maxTickMicros = 20_000
)

// listening measures the time in which this worker could have heard a reply. A worker that
// stands still, in a long regular expression or without a CPU, hears nothing, and that must not
// count as Redis' silence.
//
// Envoy runs a timer's callback after it has read what came before the timer was
// due. So of the time between two ticks one period counts, and the lateness of the
// second tick does not. Callbacks other than ticks prove nothing: many requests may
// be read in a row before the first reply is.
type listening struct {
	micros       int64 // until the last tick
	tickedMicros int64
	periodMicros int64 // that ticks are asked for
}

func (l *listening) at(nowMicros int64) int64 {
	return l.micros + min(nowMicros-l.tickedMicros, l.periodMicros)
}

func (l *listening) tick(nowMicros int64) {
	l.micros, l.tickedMicros = l.at(nowMicros), nowMicros
}

// expire tells the checks that have waited for the timeout, and gives up a stream that has
// stalled. Replies may still come to what has expired. What is kept goes to another stream.
func (l *link) expire(nowMicros int64) {
	for p, i := &l.pipe.commands, l.pipe.commands.first; i < p.next; i++ {
		if k := p.at(i); l.pipe.waited(k, nowMicros)+k.keptMicros >= l.options.TimeoutMicros {
			l.act(k, end{timedOut, causes[timedOut], nowMicros})
		}
	}
	if l.pipe.owes(stalledTimeouts*l.options.TimeoutMicros, nowMicros) {
		l.hangUp(ended{cause: Lost}, nowMicros)
	}
	l.tryNext(nowMicros)
}
