package redis

import (
	"strconv"

	"github.com/sluiceproxy/sluice/redisresp"
)

// failed counts a failure; enough of them in a row open the breaker. Requests in
// flight stay: none waits longer than its timeout, and a stream that works may
// still answer them.
func (c *Conn) failed(cause Cause, nowMicros int64) {
	if c.breaker.fail() {
		c.openBreaker(cause, nowMicros)
	}
}

// openBreaker begins a pause, the first of an outage or, after a probe that
// failed, the next.
func (c *Conn) openBreaker(cause Cause, nowMicros int64) {
	c.breaker.open(nowMicros)
	c.host.BreakerChanged(Open)
	c.report(cause, nowMicros)
}

// setUpAnswered handles the reply to AUTH or SELECT. If it is an error, nothing
// on this connection can succeed, so the breaker opens at once.
func (c *Conn) setUpAnswered(command string, r redisresp.Reply, nowMicros int64) {
	if r.Kind != redisresp.Error {
		return
	}
	c.complain(command, r.Bytes)
	if c.breaker.state == Closed {
		c.openBreaker(ErrorReply, nowMicros)
	}
	c.drop(ErrorReply, true, nowMicros)
}

// probe asks whether Redis is back: one command, for which nobody waits. A
// stream that owes a reply for longer than the timeout would only show that it
// still does, so it is replaced first, which also reaches a Redis that is back
// soonest. What its commands have charged stands.
func (c *Conn) probe(nowMicros int64) {
	if c.owesSince(nowMicros, c.options.TimeoutMicros) {
		c.drop(Lost, false, nowMicros)
	}
	c.breaker.state = HalfOpen
	c.host.BreakerChanged(HalfOpen)
	c.reopenMicros = 0
	if !c.open && !c.connect(nowMicros) {
		c.openBreaker(Unreachable, nowMicros)
		return
	}
	c.out = appendProbe(c.out, c.options.KeyPrefix, c.probeTag)
	c.pipe.push(entry{kind: probeEntry, sentMicros: nowMicros})
}

// probed ends the outage, or begins the next pause.
func (c *Conn) probed(r redisresp.Reply, nowMicros int64) {
	switch r.Kind {
	case redisresp.SimpleString:
		c.breaker.close()
		c.reported = ""
		c.host.BreakerChanged(Closed)
		c.host.Info("redis is back: it decides again")
	case redisresp.Error:
		c.complain("", r.Bytes)
		c.openBreaker(ErrorReply, nowMicros)
		c.dropIfUseless(r, nowMicros)
	default:
		c.openBreaker(Malformed, nowMicros)
		c.drop(Malformed, true, nowMicros)
	}
}

// dropIfUseless closes the stream after an error reply that another connection
// may not get.
func (c *Conn) dropIfUseless(r redisresp.Reply, nowMicros int64) {
	if connectionUseless(r.Bytes) {
		c.drop(ErrorReply, true, nowMicros)
	}
}

// complain keeps an error reply for the log.
func (c *Conn) complain(command string, text []byte) {
	c.complaint.set(command, text, c.options.Username, c.options.Password)
}

// report logs why Redis does not decide: when the breaker opens, and again when
// a probe finds another reason.
func (c *Conn) report(cause Cause, nowMicros int64) {
	reason, text := cause.String(), cause.explain()
	switch {
	case cause == ErrorReply:
		reason, text = c.complaint.code(), c.complaint.explain()
	case cause == Unreachable && c.openError != nil:
		text = c.openError.Error() + ": " + text
	}
	if reason == c.reported {
		return
	}
	c.reported = reason
	pause := (c.breaker.dueMicros - nowMicros + 999) / 1000
	c.host.Warn("redis does not decide: " + cause.String() + ": " + text +
		"; the failure mode applies, next probe in " + strconv.FormatInt(pause, 10) + "ms")
}
