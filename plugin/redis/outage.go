package redis

import (
	"strconv"

	"github.com/sluiceproxy/sluice/redisresp"
)

// failed counts a failure; enough of them open the breaker. Requests in flight
// stay: none waits longer than its timeout, and a stream that works may still
// answer them.
func (c *Conn) failed(cause Cause, nowMicros int64) {
	if c.breaker.fail(cause, nowMicros) {
		c.openBreaker(cause, nowMicros)
	}
}

// openBreaker begins a pause, the first of an outage or, after a probe that
// failed, the next.
func (c *Conn) openBreaker(cause Cause, nowMicros int64) {
	c.breaker.open(nowMicros)
	c.observer.BreakerChanged(Open)
	c.report(cause, nowMicros)
}

// probe asks whether Redis is back: one command, for which nobody waits. A
// stream that owes a reply for longer than the timeout would only show that it
// still does, so it is replaced first, which also reaches a Redis that is back
// soonest. What its commands have charged stands.
func (c *Conn) probe(nowMicros int64) {
	if c.owes(c.options.TimeoutMicros, nowMicros) {
		c.hangUp(ended{cause: Lost}, nowMicros)
	}
	c.breaker.state = HalfOpen
	c.observer.BreakerChanged(HalfOpen)
	c.stream.reopenMicros = 0
	if !c.stream.open && !c.connect(nowMicros) {
		c.openBreaker(Unreachable, nowMicros)
		return
	}
	c.out = appendProbe(c.out, c.options.KeyPrefix, c.breaker.probeTag(&c.random))
	c.pushBare(probeEntry, nowMicros)
}

// answerProbe ends the outage, or begins the next pause.
func (c *Conn) answerProbe(r redisresp.Reply, nowMicros int64) {
	switch r.Kind {
	case redisresp.SimpleString:
		c.breaker.close()
		c.reported = ""
		c.observer.BreakerChanged(Closed)
		c.host.Info("redis is back: it decides again")
	case redisresp.Error:
		c.complain("", r.Bytes)
		c.openBreaker(ErrorReply, nowMicros)
		if connectionUseless(r.Bytes) {
			c.hangUp(ended{cause: ErrorReply, counted: true}, nowMicros)
		}
	default:
		c.openBreaker(Malformed, nowMicros)
		c.hangUp(ended{cause: Malformed, counted: true}, nowMicros)
	}
}

// uselessPauseMicros is how far apart connections are replaced because of an error
// reply to a check. One of several servers behind redis_proxy may answer so for
// long, and each replacement fails what is in flight to the others.
const uselessPauseMicros = 1_000_000

// replaceIfUseless closes the stream after an error reply that another connection
// may not get.
func (c *Conn) replaceIfUseless(r redisresp.Reply, nowMicros int64) {
	s := &c.stream
	if connectionUseless(r.Bytes) && (!s.replaced || nowMicros-s.replacedMicros >= uselessPauseMicros) {
		s.replaced, s.replacedMicros = true, nowMicros
		c.hangUp(ended{cause: ErrorReply, counted: true}, nowMicros)
	}
}

// complain keeps an error reply for the log.
func (c *Conn) complain(command string, text []byte) {
	c.complaint.set(command, text, c.options.Username, c.options.Password)
}

// report logs why Redis does not decide: when the breaker opens, and again when
// a probe finds another reason.
func (c *Conn) report(cause Cause, nowMicros int64) {
	reason, text := c.why(cause)
	if reason == c.reported {
		return
	}
	c.reported = reason
	pause := (c.breaker.dueMicros - nowMicros + 999) / 1000
	c.host.Warn("redis does not decide: " + cause.String() + ": " + text +
		"; the failure mode applies, next probe in " + strconv.FormatInt(pause, 10) + "ms")
}

// why says for the log what a cause means and what to do about it. Two failures
// of one reason are not told apart.
func (c *Conn) why(cause Cause) (reason, text string) {
	reason, text = cause.String(), cause.explain()
	switch {
	case cause == ErrorReply:
		reason, text = c.complaint.code(), c.complaint.explain()
	case cause == Unreachable && c.stream.openError != nil:
		text = c.stream.openError.Error() + ": " + text
	}
	return reason, text
}
