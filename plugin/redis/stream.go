package redis

import "github.com/sluiceproxy/sluice/redisresp"

// connect opens a stream and queues its set-up, unless the last attempt failed
// moments ago.
func (c *Conn) connect(nowMicros int64) bool {
	if nowMicros < c.reopenMicros {
		return false
	}
	c.decoder.Reset()
	c.open, c.heard = true, false // before the call, in which Closed may come
	c.openError = c.host.OpenStream()
	if c.openError != nil && c.open {
		c.open = false
		c.backOff(nowMicros)
	}
	if !c.open {
		return false
	}
	if c.opened {
		c.host.Reconnected()
	}
	c.opened = true
	c.setUp(nowMicros)
	return true
}

// setUp queues AUTH and SELECT; they leave with the first command
// (https://redis.io/docs/latest/commands/auth/).
func (c *Conn) setUp(nowMicros int64) {
	o := &c.options
	if o.Password != "" {
		n := 2
		if o.Username != "" {
			n = 3
		}
		c.out = redisresp.AppendArray(c.out, n)
		c.out = redisresp.AppendBulkString(c.out, "AUTH")
		if o.Username != "" {
			c.out = redisresp.AppendBulkString(c.out, o.Username)
		}
		c.out = redisresp.AppendBulkString(c.out, o.Password)
		c.pipe.push(entry{kind: authEntry, sentMicros: nowMicros})
	}
	if o.Database != 0 {
		c.out = redisresp.AppendArray(c.out, 2)
		c.out = redisresp.AppendBulkString(c.out, "SELECT")
		c.out = redisresp.AppendBulkInt(c.out, o.Database)
		c.pipe.push(entry{kind: selectEntry, sentMicros: nowMicros})
	}
}

// transmit sends the commands that are queued.
func (c *Conn) transmit(nowMicros int64) {
	err := c.host.Send(c.out)
	c.out = c.out[:0]
	if err != nil {
		c.drop(Lost, false, nowMicros)
	}
}

// settle ends the deferring of commands that Waiters and replies have caused:
// no host call, which may end the stream, happens while the pipe is walked, and
// many commands leave in one.
func (c *Conn) settle(nowMicros int64) {
	c.deferring = false
	if len(c.out) > 0 {
		c.transmit(nowMicros)
	}
}

// Closed tells that the stream is gone.
func (c *Conn) Closed(nowMicros int64) {
	if c.open {
		c.ended(Lost, false, nowMicros)
	}
}

// drop closes the stream because it is of no use any more. counted says that the
// failure behind it has been counted.
func (c *Conn) drop(cause Cause, counted bool, nowMicros int64) {
	if c.open {
		c.open = false
		c.host.CloseStream()
		c.ended(cause, counted, nowMicros)
	}
}

// ended fails all that waits for the stream that is gone. However many requests
// that is, it is one failure: a connection that is killed under load says no
// more about Redis than one that is killed while a single request waits, and
// none at all if nobody does. A stream that was heard of is replaced at once
// when the next request comes, one that was not counts as one that could not be
// opened.
func (c *Conn) ended(cause Cause, counted bool, nowMicros int64) {
	c.open = false
	c.out, c.in = c.out[:0], c.in[:0]
	if !c.heard {
		c.backOff(nowMicros)
		if cause == Lost {
			cause = Unreachable
		}
	}
	for c.pipe.len() > 0 {
		e := c.pop()
		switch {
		case e.kind == probeEntry:
			c.openBreaker(cause, nowMicros)
		case e.waiter != nil:
			if !counted {
				c.failed(cause, nowMicros)
				counted = true
			}
			c.giveUp(e.waiter, e.tag, c.pipe.first, cause)
		}
	}
}

// pop takes the oldest entry out of the pipe, for good until the next push.
func (c *Conn) pop() *entry {
	e := c.pipe.pop()
	if e.last {
		c.waiting--
	}
	return e
}

// backOff postpones the next attempt to open a stream.
func (c *Conn) backOff(nowMicros int64) {
	c.reopenMicros = nowMicros + c.reopen.next()
}
