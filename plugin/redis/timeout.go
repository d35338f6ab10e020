package redis

// stalledTimeouts is after how many timeouts without a reply to the oldest
// command a stream is taken for dead. Replies come in order, so one slow script
// delays all that was sent after it, on this connection and on any other, as
// Redis runs one at a time: to connect anew would help nothing, bring every
// worker's handshake at the worst moment, and lose the replies, by which late
// charges are given back. So a stream is not given up for one timeout; the
// breaker keeps requests from waiting for it.
const stalledTimeouts = 3

// Tick fails what has waited too long, replaces a stalled stream and sends the
// breaker's probe when it is due.
func (c *Conn) Tick(nowMicros int64) {
	c.deferring = true
	c.expire(nowMicros)
	if c.owesSince(nowMicros, stalledTimeouts*c.options.TimeoutMicros) {
		c.drop(Lost, false, nowMicros)
	}
	if c.breaker.state == Open && nowMicros >= c.breaker.dueMicros {
		c.probe(nowMicros)
	}
	c.settle(nowMicros)
}

// expire fails what has waited for the timeout. The replies may still come, and
// find that nobody waits.
func (c *Conn) expire(nowMicros int64) {
	for i := c.pipe.first; i < c.pipe.next; i++ {
		e := c.pipe.at(i)
		switch {
		case nowMicros-e.sentMicros < c.options.TimeoutMicros:
		case e.kind == probeEntry:
			e.kind = staleEntry
			c.openBreaker(Timeout, nowMicros)
		case e.waiter != nil:
			w := e.waiter
			e.waiter = nil
			c.failed(Timeout, nowMicros)
			giveBack := c.giveUp(w, e.tag, i+1, Timeout)
			c.pipe.at(i).giveBack = giveBack // not e: the pipe may have grown
		}
	}
}

// owesSince says whether the oldest command has had no reply for so long.
func (c *Conn) owesSince(nowMicros, micros int64) bool {
	return c.pipe.len() > 0 && nowMicros-c.pipe.at(c.pipe.first).sentMicros >= micros
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
