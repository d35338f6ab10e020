package redis

import (
	"slices"

	"github.com/sluiceproxy/sluice/redisresp"
)

// Received takes bytes from the stream: any part of a reply, or many replies.
func (c *Conn) Received(b []byte, nowMicros int64) {
	if len(c.in) > 0 {
		c.in = append(c.in, b...)
		b = c.in
	}
	for len(b) > 0 && c.open {
		reply, n, outcome := c.decoder.Decode(b)
		if outcome == redisresp.Malformed || outcome == redisresp.Complete && c.pipe.len() == 0 {
			c.drop(Malformed, nowMicros)
			return
		}
		if outcome == redisresp.Incomplete {
			break
		}
		b = b[n:]
		c.heard = true
		c.backoffMicros, c.reopenMicros = 0, 0
		c.answer(reply, nowMicros)
	}
	if c.open {
		c.in = append(c.in[:0], b...)
	}
}

// answer gives a reply to the oldest entry.
func (c *Conn) answer(r redisresp.Reply, nowMicros int64) {
	e := c.pipe.pop()
	if e.last {
		c.waiting--
	}
	switch e.kind {
	case setupEntry:
		if r.Kind == redisresp.Error {
			c.refused(r.Bytes, nowMicros)
		}
	case probeEntry:
		c.probed(r, nowMicros)
	case refundEntry:
		if needsSource(e, r) {
			c.sendSource(e, nowMicros)
		}
	case checkEntry:
		c.answerCheck(e, r, nowMicros)
	}
}

// answerCheck hands a check's decision, or its failure, to who waits for it.
func (c *Conn) answerCheck(e *entry, r redisresp.Reply, nowMicros int64) {
	if needsSource(e, r) {
		if e.waiter != nil {
			c.sendSource(e, nowMicros)
		}
		return
	}
	if r.Kind == redisresp.Error {
		c.detail = append(c.detail[:0], r.Bytes[:min(len(r.Bytes), maxErrorText)]...)
		c.fail(e, ErrorReply, nowMicros)
		if wrongServer(r) || notAuthenticated(r) {
			c.drop(ErrorReply, nowMicros)
		}
		return
	}
	at, allowed, ok := c.parse(e.script, r)
	if !ok {
		c.fail(e, Malformed, nowMicros)
		return
	}
	c.host.RoundTrip(nowMicros - e.sentMicros)
	if c.breaker.state == Closed {
		c.breaker.failures = 0
	}
	switch {
	case e.waiter != nil:
		e.waiter.Decided(e.index, at, c.decisions, allowed)
	case e.giveBack && allowed:
		c.Refund(e.script, e.tag, e.cost, e.nonce, at, nowMicros)
	}
}

// parse reads a script's reply into c.decisions.
func (c *Conn) parse(s *Script, r redisresp.Reply) (atMicros int64, allowed, ok bool) {
	if r.Kind != redisresp.Array {
		return 0, false, false
	}
	c.values = c.values[:0]
	for it := r.Iter(); it.Next(); {
		v := it.Reply()
		if v.Kind != redisresp.Integer || len(c.values) == s.policy.ReplyLen() {
			return 0, false, false
		}
		c.values = append(c.values, v.Int)
	}
	n := len(s.policy.Limits())
	c.decisions = slices.Grow(c.decisions[:0], n)[:n]
	at, allowed, err := s.policy.ParseReply(c.values, c.decisions)
	return at, allowed, err == nil
}

// needsSource says whether a command must be sent again with its source, as
// Redis does not know its hash (https://redis.io/docs/latest/commands/evalsha/).
func needsSource(e *entry, r redisresp.Reply) bool {
	return !e.bySource && string(r.ErrorPrefix()) == "NOSCRIPT"
}

// sendSource sends an entry again with EVAL. The request's timeout still counts
// from when it was first sent.
func (c *Conn) sendSource(e *entry, nowMicros int64) {
	again := *e
	again.bySource = true
	if again.last {
		c.waiting++
	}
	from := c.pipe.next
	c.push(again)
	c.send(from, nowMicros)
	if c.open {
		c.pipe.at(from).sentMicros = again.sentMicros
	}
}
