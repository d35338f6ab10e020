package redis

import (
	"strconv"

	"github.com/sluiceproxy/sluice/redisresp"
)

// stalledTimeouts is after how many timeouts without a reply to the oldest
// command a stream is taken for dead.
const stalledTimeouts = 3

// Closed tells that the stream is gone.
func (c *Conn) Closed(nowMicros int64) {
	if !c.open {
		return
	}
	c.ended(Lost, nowMicros)
}

// drop closes the stream because it is of no use any more.
func (c *Conn) drop(cause Cause, nowMicros int64) {
	if !c.open {
		return
	}
	c.host.CloseStream()
	c.ended(cause, nowMicros)
}

// ended fails all that waits for the stream that is gone. A stream that never
// brought a reply counts as one that could not be opened.
func (c *Conn) ended(cause Cause, nowMicros int64) {
	c.open = false
	if !c.heard {
		c.backOff(nowMicros)
		if cause == Lost {
			cause = Unreachable
		}
	}
	for i := c.pipe.first; i < c.pipe.next; i++ {
		switch e := c.pipe.at(i); {
		case e.kind == probeEntry:
			c.probeFailed(nowMicros)
		case e.waiter != nil:
			c.fail(e, cause, nowMicros)
		}
	}
	c.pipe.first = c.pipe.next
	c.waiting = 0
	c.out, c.in = c.out[:0], c.in[:0]
}

// Tick fails what has waited too long, replaces a stalled stream and sends the
// breaker's probe when it is due.
func (c *Conn) Tick(nowMicros int64) {
	for i := c.pipe.first; i < c.pipe.next; i++ {
		e := c.pipe.at(i)
		switch {
		case nowMicros-e.sentMicros < c.options.TimeoutMicros:
		case e.kind == probeEntry:
			e.kind = staleEntry
			c.probeFailed(nowMicros)
		case e.waiter != nil:
			c.fail(e, Timeout, nowMicros)
		}
	}
	if c.pipe.len() > 0 && nowMicros-c.pipe.at(c.pipe.first).sentMicros >= stalledTimeouts*c.options.TimeoutMicros {
		c.drop(Timeout, nowMicros)
	}
	if c.breaker.state == Open && nowMicros >= c.breaker.dueMicros {
		c.probe(nowMicros)
	}
}

// minTickMicros is the finest timer Envoy offers; maxTickMicros keeps a long
// timeout from being overrun by much.
const (
	minTickMicros = 4_000
	maxTickMicros = 20_000
)

// NextTickMicros is how long Tick may wait; 0 when nothing waits for it.
func (c *Conn) NextTickMicros(nowMicros int64) int64 {
	switch {
	case c.pipe.len() > 0:
		return min(max(c.options.TimeoutMicros/4, minTickMicros), maxTickMicros)
	case c.breaker.state == Open:
		return max(c.breaker.dueMicros-nowMicros, minTickMicros)
	}
	return 0
}

// fail tells the request that waits for an entry, if any still does, that Redis
// will not decide it.
func (c *Conn) fail(e *entry, cause Cause, nowMicros int64) {
	c.probeTag = append(c.probeTag[:0], e.tag...)
	c.failed(cause, nowMicros)
	w := e.waiter
	if w == nil {
		return
	}
	c.host.RequestFailed(cause)
	outstanding, giveBack := w.Failed(cause)
	e.waiter, e.giveBack = nil, giveBack
	c.pipe.abandon(w, c.pipe.first, outstanding, giveBack)
}

// failed counts a failure; the one that opens the breaker is logged.
func (c *Conn) failed(cause Cause, nowMicros int64) {
	if c.breaker.fail(nowMicros) {
		c.announce(cause, nowMicros)
	}
}

// refused handles an error reply to AUTH or SELECT: nothing on this connection
// can succeed, so the breaker opens at once.
func (c *Conn) refused(reply []byte, nowMicros int64) {
	c.detail = append(c.detail[:0], reply[:min(len(reply), maxErrorText)]...)
	if c.breaker.state == Closed {
		c.breaker.open(nowMicros)
		c.announce(ErrorReply, nowMicros)
	}
	c.drop(ErrorReply, nowMicros)
}

// probe asks whether Redis is back: one command, for which nobody waits.
func (c *Conn) probe(nowMicros int64) {
	c.breaker.state = HalfOpen
	c.host.BreakerChanged(HalfOpen)
	c.reopenMicros = 0
	if !c.open && !c.connect(nowMicros) {
		c.probeFailed(nowMicros)
		return
	}
	from := c.pipe.next
	c.out = appendProbe(c.out, c.options.KeyPrefix, c.probeTag)
	c.pipe.push(entry{kind: probeEntry})
	c.send(from, nowMicros)
}

// probed ends the outage, or begins the next pause.
func (c *Conn) probed(r redisresp.Reply, nowMicros int64) {
	if c.breaker.state != HalfOpen { // its time was over before the reply came
		return
	}
	if r.Kind == redisresp.Error {
		c.probeFailed(nowMicros)
		if wrongServer(r) || notAuthenticated(r) {
			c.drop(ErrorReply, nowMicros)
		}
		return
	}
	c.breaker.close()
	c.host.BreakerChanged(Closed)
	c.host.Info("redis is back: deciding there again")
}

// probeFailed begins the next pause.
func (c *Conn) probeFailed(nowMicros int64) {
	if c.breaker.state == HalfOpen {
		c.breaker.open(nowMicros)
		c.host.BreakerChanged(Open)
	}
}

// announce reports that the breaker has opened.
func (c *Conn) announce(cause Cause, nowMicros int64) {
	c.host.BreakerChanged(Open)
	line := "redis does not decide (" + cause.String()
	if cause == ErrorReply {
		line += ": " + describe(c.detail)
	}
	pause := (c.breaker.dueMicros - nowMicros) / 1000
	c.host.Warn(line + "): the failure mode applies, next probe in " + strconv.FormatInt(pause, 10) + "ms")
}
