package redis

import (
	"slices"

	"github.com/sluiceproxy/sluice/redisresp"
)

// Received takes bytes from the stream: any part of a reply, or many replies.
func (c *Conn) Received(b []byte, nowMicros int64) {
	c.deferring = true
	c.read(b, nowMicros)
	c.settle(nowMicros)
}

func (c *Conn) read(b []byte, nowMicros int64) {
	if len(c.in) > 0 {
		c.in = append(c.in, b...)
		b = c.in
	}
	for len(b) > 0 && c.open {
		reply, n, outcome := c.decoder.Decode(b)
		if outcome == redisresp.Malformed || outcome == redisresp.Complete && c.pipe.len() == 0 {
			c.drop(Malformed, false, nowMicros)
			return
		}
		if outcome == redisresp.Incomplete {
			break
		}
		b = b[n:]
		c.heard = true
		c.reopen.reset()
		c.answer(reply, nowMicros)
	}
	if c.open {
		c.in = append(c.in[:0], b...)
	}
}

// answer gives a reply to the oldest entry.
func (c *Conn) answer(r redisresp.Reply, nowMicros int64) {
	switch e := c.pop(); e.kind {
	case authEntry:
		c.setUpAnswered("AUTH", r, nowMicros)
	case selectEntry:
		c.setUpAnswered("SELECT", r, nowMicros)
	case probeEntry:
		c.probed(r, nowMicros)
	case checkEntry:
		c.answerCheck(e, r, nowMicros)
	}
}

// answerCheck hands a check's decision, or its failure, to who waits for it.
func (c *Conn) answerCheck(e *entry, r redisresp.Reply, nowMicros int64) {
	if needsSource(e, r) {
		if e.waiter != nil {
			c.sendSource(e)
		}
		return
	}
	if r.Kind == redisresp.Error {
		c.complain("", r.Bytes)
		c.checkFailed(e, ErrorReply, nowMicros)
		c.dropIfUseless(r, nowMicros)
		return
	}
	at, allowed, ok := c.parse(e.script, r)
	if !ok { // who knows which command this answers: trust none that follows
		counted := e.waiter != nil
		c.checkFailed(e, Malformed, nowMicros)
		c.drop(Malformed, counted, nowMicros)
		return
	}
	c.host.RoundTrip(nowMicros - e.sentMicros)
	if e.last && !e.failed && (e.waiter != nil || nowMicros-e.sentMicros < c.options.TimeoutMicros) {
		c.breaker.succeed()
	}
	switch {
	case e.waiter != nil:
		e.waiter.Decided(e.index, at, c.decisions, allowed)
	case e.giveBack && allowed:
		c.Refund(e.script, e.tag, e.cost, e.nonce, at, nowMicros)
	}
}

// checkFailed counts a check's failure if its request still waits, so that one
// request is never more than one failure.
func (c *Conn) checkFailed(e *entry, cause Cause, nowMicros int64) {
	if e.waiter != nil {
		c.failed(cause, nowMicros)
		c.giveUp(e.waiter, e.tag, c.pipe.first, cause)
	}
}

// parse reads a script's reply, an array of integers, into c.decisions. Anything
// but an array has no elements, which ParseReply refuses.
func (c *Conn) parse(s *Script, r redisresp.Reply) (atMicros int64, allowed, ok bool) {
	c.values = c.values[:0]
	it := r.Iter() // not in the for clause: TinyGo would allocate it for each element
	for it.Next() {
		v := it.Reply()
		if v.Kind != redisresp.Integer {
			return 0, false, false
		}
		c.values = append(c.values, v.Int)
	}
	n := len(s.policy.Limits())
	c.decisions = slices.Grow(c.decisions[:0], n)[:n]
	at, allowed, err := s.policy.ParseReply(c.values, c.decisions)
	return at, allowed, err == nil
}

// needsSource says whether a check must be sent again with its source, as
// Redis does not know its hash (https://redis.io/docs/latest/commands/evalsha/).
func needsSource(e *entry, r redisresp.Reply) bool {
	return r.Kind == redisresp.Error && !e.bySource && string(r.ErrorPrefix()) == "NOSCRIPT"
}

// sendSource sends a check again with EVAL. Its timeout still counts from when it
// was first sent.
func (c *Conn) sendSource(e *entry) {
	again := *e
	again.bySource, again.last = true, true
	c.waiting++
	c.push(again)
}
