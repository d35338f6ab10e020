package redis

import "github.com/sluiceproxy/sluice/redisresp"

// stream is what a Conn knows of the stream it has, or will open.
type stream struct {
	open    bool
	heard   bool   // a reply has come on it
	opened  bool   // there was one before, which was lost
	resting bool   // it was closed because nobody needed it
	number  uint64 // counts the streams

	usedMicros   int64  // when something was last sent
	reopenMicros int64  // no new stream before this time
	reopen       pauses // between attempts to open one
	openError    error  // of the last attempt

	replaced       bool  // one was closed as useless
	replacedMicros int64 // the last time

	in      []byte // the beginning of a reply that is not complete
	decoder *redisresp.Decoder
}

// ended is why a stream has ended.
type ended struct {
	cause   Cause
	counted bool // the failure behind it has been counted
}

// replyLimits bound what a reply may be: those of our scripts are flat arrays of
// a few dozen integers, and error texts are short.
var replyLimits = redisresp.Limits{Bytes: 64 << 10}

// restMicros is after how long without a command a stream is closed. Envoy keeps
// a configuration, and this connection with it, for as long as one of its
// requests lives; a WebSocket may live for days after the configuration was
// replaced.
const restMicros = 60_000_000

// connect opens a stream and queues its set-up, unless the last attempt failed
// moments ago.
func (c *Conn) connect(nowMicros int64) bool {
	s := &c.stream
	if nowMicros < s.reopenMicros {
		return false
	}
	s.decoder.Reset()
	s.open, s.heard = true, false // before the call, in which Closed may come
	s.openError = c.host.OpenStream()
	if s.openError != nil && s.open {
		s.open = false
		s.backOff(nowMicros)
	}
	if !s.open {
		return false
	}
	if s.opened {
		c.observer.Reconnected()
	}
	s.opened, s.resting = true, false
	s.number++
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
		c.pushBare(authEntry, nowMicros)
	}
	if o.Database != 0 {
		c.out = redisresp.AppendArray(c.out, 2)
		c.out = redisresp.AppendBulkString(c.out, "SELECT")
		c.out = redisresp.AppendBulkInt(c.out, o.Database)
		c.pushBare(selectEntry, nowMicros)
	}
}

// pushBare queues an entry whose command has been encoded.
func (c *Conn) pushBare(k kind, nowMicros int64) {
	e := entry{kind: k}
	c.stamp(&e, nowMicros)
	c.pipe.push(e)
}

// transmit sends the commands that are queued.
func (c *Conn) transmit(nowMicros int64) {
	c.stream.usedMicros = nowMicros
	err := c.host.Send(c.out)
	c.out = c.out[:0]
	if err != nil {
		c.hangUp(ended{cause: Lost}, nowMicros)
	}
}

// transmitDeferred sends what Waiters and replies have caused. No host call,
// which may end the stream, happens while the pipe is walked, and many commands
// leave in one.
func (c *Conn) transmitDeferred(nowMicros int64) {
	c.deferring = false
	if len(c.out) > 0 {
		c.transmit(nowMicros)
	}
}

// hangUp closes the stream, which is useless now.
func (c *Conn) hangUp(e ended, nowMicros int64) {
	if c.stream.open {
		c.stream.open = false
		c.host.CloseStream()
		c.end(e, nowMicros)
	}
}

// end fails all that waits for the stream that is gone. However many requests
// that is, it is one failure: a connection that is killed under load says no
// more about Redis than one that is killed while a single request waits, and
// nothing at all if nobody waits. If the stream ever delivered a reply, the next
// request opens a new one at once. If not, the loss counts as a failed attempt
// to connect.
func (c *Conn) end(why ended, nowMicros int64) {
	s := &c.stream
	s.open = false
	c.out, s.in = c.out[:0], s.in[:0]
	if !s.heard {
		s.backOff(nowMicros)
		if why.cause == Lost {
			why.cause = Unreachable
		}
	}
	for c.pipe.entries.len() > 0 {
		switch e := c.pipe.entries.pop(); e.kind {
		case probeEntry:
			c.openBreaker(why.cause, nowMicros)
		case trialEntry:
			c.trialFailed(why.cause)
		case settleEntry:
			c.settled(&e.charge, false)
		case refundEntry, releaseEntry:
			c.releaseAgain(e, true)
		case checkEntry:
			if c.undecided(e, why.cause, nowMicros) && !why.counted {
				c.failed(why.cause, nowMicros)
				why.counted = true
			}
			c.releaseAgain(e, true)
			c.fail(e, why.cause, nowMicros)
		}
	}
}

// rest closes a stream that nobody has needed for a while. The next request
// opens another, which is not told as one in place of a lost one.
func (c *Conn) rest(nowMicros int64) {
	s := &c.stream
	idle := s.open && c.pipe.entries.len() == 0 && len(c.out) == 0
	if idle && nowMicros-s.usedMicros >= restMicros {
		s.open, s.opened, s.resting = false, false, true
		s.in = s.in[:0]
		c.host.CloseStream()
	}
}

// backOff postpones the next attempt to open a stream.
func (s *stream) backOff(nowMicros int64) {
	s.reopenMicros = nowMicros + s.reopen.next()
}
