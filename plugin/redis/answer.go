package redis

import (
	"errors"
	"slices"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/redisresp"
)

// read takes replies out of the bytes that have come.
func (c *Conn) read(b []byte, nowMicros int64) {
	s := &c.stream
	if len(s.in) > 0 {
		s.in = append(s.in, b...)
		b = s.in
	}
	for len(b) > 0 && s.open {
		reply, n, outcome := s.decoder.Decode(b)
		if outcome == redisresp.Malformed || outcome == redisresp.Complete && c.pipe.entries.len() == 0 {
			c.hangUp(ended{cause: Malformed}, nowMicros)
			return
		}
		if outcome == redisresp.Incomplete {
			break
		}
		b = b[n:]
		s.heard = true
		s.reopen.reset()
		c.answer(reply, nowMicros)
	}
	if s.open {
		s.in = append(s.in[:0], b...)
	}
}

// answer gives a reply to the oldest entry.
func (c *Conn) answer(r redisresp.Reply, nowMicros int64) {
	switch e := c.pipe.entries.pop(); e.kind {
	case authEntry:
		c.answerSetUp("AUTH", r, nowMicros)
	case selectEntry:
		c.answerSetUp("SELECT", r, nowMicros)
	case probeEntry:
		c.answerProbe(r, nowMicros)
	case serverEntry:
		c.answerServer(r)
	case roleEntry:
		c.answerRole(r)
	case trialEntry:
		c.answerTrial(r, nowMicros)
	case refundEntry, settleEntry, releaseEntry, renewEntry:
		c.answerRefund(e, r)
	case checkEntry:
		c.answerCheck(e, r, nowMicros)
	}
}

// answerSetUp handles the reply to AUTH or SELECT. If it is an error, nothing on
// this connection can succeed, so the breaker opens at once.
func (c *Conn) answerSetUp(command string, r redisresp.Reply, nowMicros int64) {
	if r.Kind != redisresp.Error {
		return
	}
	c.complain(command, r.Bytes)
	if c.breaker.state == Closed {
		c.openBreaker(ErrorReply, nowMicros)
	}
	c.hangUp(ended{cause: ErrorReply, counted: true}, nowMicros)
}

// answerCheck brings a check its last call, or sends it again: a rejection that a
// refund should have come before, unless it has counted as a strike.
func (c *Conn) answerCheck(e *entry, r redisresp.Reply, nowMicros int64) {
	if r.Kind == redisresp.Error {
		c.answerError(e, r, nowMicros)
		return
	}
	err := c.parse(&e.charge, r, nowMicros)
	if isOther(err) && c.askResized(e, nowMicros) {
		return
	}
	if err != nil { // who knows which command this answers: trust none that follows
		counted := c.failCheck(e, Malformed, nowMicros)
		c.hangUp(ended{Malformed, counted}, nowMicros)
		return
	}
	c.observer.RoundTrip(nowMicros - e.sentMicros)
	if !e.expired {
		c.breaker.succeed(e.charge.Tag, nowMicros)
		if e.overtook && !c.reply.Allowed && !e.charge.Script.strikes() {
			c.askAgain(e, Overtaken)
			return
		}
	}
	c.pipe.finish(e.question)
	e.waiter.Decided(e.index, &c.reply, nowMicros)
}

// answerError handles an error reply to a check. Redis may just not know the
// script (https://redis.io/docs/latest/commands/evalsha/), or not let it call
// TIME.
func (c *Conn) answerError(e *entry, r redisresp.Reply, nowMicros int64) {
	switch again := isNoScript(r) && !e.bySource || c.lacksTime(e, r); {
	case !again:
		c.complain("", r.Bytes)
		c.failCheck(e, ErrorReply, nowMicros)
		c.replaceIfUseless(r, nowMicros)
	case e.expired: // nothing was charged, and nobody needs the decision
		c.failCheck(e, Timeout, nowMicros)
	case isNoScript(r):
		c.askAgain(e, UnknownScript)
	default:
		c.askAgain(e, NoTime)
	}
}

// isOther reports whether a script has said that it was called for another time, or
// another factor.
func isOther(err error) bool {
	return errors.Is(err, algo.ErrOtherTime) || errors.Is(err, algo.ErrOtherFactor)
}

// askResized sends a check once more that was made for another time, or another
// factor, than Redis has, or fails it. It reports whether that was done: its Waiter may
// know no other sizes.
func (c *Conn) askResized(e *entry, nowMicros int64) (done bool) {
	sizes := e.waiter.Resize(e.index, &c.reply, nowMicros)
	switch {
	case len(sizes) == 0:
		return false
	case e.expired: // nothing was charged, and nobody needs the decision
		c.failCheck(e, Timeout, nowMicros)
	case c.reply.Factor == 0 && e.resized:
		c.complain("", otherTimeText)
		c.failCheck(e, ErrorReply, nowMicros)
	case c.reply.Factor != 0 && e.factors == maxFactors:
		c.complain("", otherFactorText)
		c.failCheck(e, ErrorReply, nowMicros)
	default:
		c.resize(e, sizes)
		c.pushAgain(e)
	}
	return true
}

// resize gives a check the sizes that the last reply asked for, and counts the retry.
func (c *Conn) resize(e *entry, sizes []algo.Size) {
	e.overtook = false
	e.charge.Sizes = append(e.charge.Sizes[:0], sizes...)
	if c.reply.Factor == 0 {
		e.resized = true
		c.retries[OtherTime]++
		return
	}
	e.charge.Factor = c.reply.Factor
	e.factors++
	c.retries[OtherFactor]++
}

// maxFactors is how often one check is asked again since somebody has changed the
// identity's factor meanwhile.
const maxFactors = 3

// otherFactorText is what is logged when they do so all the time.
var otherFactorText = []byte("the factor in an override was another one each time (look at who writes it)")

// otherTimeText is what is logged when Redis' clock leaps.
var otherTimeText = []byte("the time in Redis was twice another than expected (look at the clocks of its hosts)")

// undecided notes that Redis has not decided a check, and reports whether that
// is news of its request.
func (c *Conn) undecided(e *entry, cause Cause, nowMicros int64) bool {
	q := c.pipe.asked.at(e.question)
	if q.failed {
		return false
	}
	q.failed = true
	c.breaker.failedTag = append(c.breaker.failedTag[:0], e.charge.Tag...)
	c.requestFailed(cause, nowMicros)
	return true
}

// failCheck fails a check and reports whether that counted as a failure, which a
// request does once.
func (c *Conn) failCheck(e *entry, cause Cause, nowMicros int64) (counted bool) {
	if counted = c.undecided(e, cause, nowMicros); counted {
		c.failed(cause, nowMicros)
	}
	c.fail(e, cause, nowMicros)
	return counted
}

// fail is the last call of a check that Redis does not decide.
func (c *Conn) fail(e *entry, cause Cause, nowMicros int64) {
	c.pipe.finish(e.question)
	e.waiter.Failed(e.index, cause, nowMicros)
}

// parse reads a script's reply, an array of integers, into c.reply. Anything but
// an array has no elements, which ParseRuling refuses.
func (c *Conn) parse(charge *Charge, r redisresp.Reply, nowMicros int64) (err error) {
	c.values = c.values[:0]
	it := r.Iter() // not in the for clause: TinyGo would allocate it for each element
	for it.Next() {
		v := it.Reply()
		if v.Kind != redisresp.Integer {
			return errNotIntegers
		}
		c.values = append(c.values, v.Int)
	}
	plan := charge.Script.planOf(charge)
	n := len(plan.Limits())
	c.reply.Decisions = slices.Grow(c.reply.Decisions[:0], n)[:n]
	c.reply.Ruling, err = plan.ParseRuling(c.values, c.reply.Decisions)
	if err == nil || isOther(err) {
		c.clock.hear(c.reply.AtMicros, nowMicros)
	}
	return err
}

var errNotIntegers = errors.New("redis: a script's reply has an element that is not an integer")

func isNoScript(r redisresp.Reply) bool {
	return r.Kind == redisresp.Error && string(r.ErrorPrefix()) == "NOSCRIPT"
}
