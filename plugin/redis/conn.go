package redis

import (
	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/redisresp"
)

// Waiter is a request that waits for Redis. Every request that was flushed gets
// either one Decided for each of its checks, or one Failed and nothing more.
type Waiter interface {
	// Decided brings the decision of the check that was added with index.
	// atMicros is Redis' time; decisions are good during the call only.
	Decided(index int, atMicros int64, decisions []algo.Decision, allowed bool)
	// Failed says that Redis will not decide this request. The Waiter returns
	// how many further decisions it has been waiting for, which will not come,
	// and whether what they charge is to be given back.
	Failed(cause Cause) (outstanding int, giveBack bool)
}

// Host is what a Conn needs of the world around it.
type Host interface {
	// OpenStream opens a stream; Conn.Closed may be called before it returns.
	OpenStream() error
	// Send writes whole commands to the open stream.
	Send(commands []byte) error
	// CloseStream ends the stream; Conn.Closed is not called for it.
	CloseStream()
	// Warn and Info log one line each.
	Warn(line string)
	Info(line string)
	Observer
}

// Observer counts what happens.
type Observer interface {
	RequestFailed(cause Cause)
	RoundTrip(micros int64)
	Reconnected()
	Refunded()
	BreakerChanged(state BreakerState)
}

// Options configure a Conn. Durations are in microseconds.
type Options struct {
	KeyPrefix          string
	Username, Password string
	Database           int64
	TimeoutMicros      int64
	MaxPending         int64
	Breaker            config.Breaker
	Seed               uint64 // for jitter and nonces: different in each worker
}

// Conn is one pipelined connection with its breaker.
type Conn struct {
	host    Host
	options Options
	breaker breaker
	random  random
	pipe    pipeline
	decoder *redisresp.Decoder

	open    bool  // there is a stream
	heard   bool  // a reply has come on this stream
	opened  bool  // there has been a stream before
	waiting int64 // requests with commands in the pipe
	nonce   int64

	reopenMicros  int64 // no new stream before this time
	backoffMicros int64 // the last pause between attempts to open a stream

	out       []byte // commands not sent yet
	in        []byte // the beginning of a reply that is not complete
	values    []int64
	decisions []algo.Decision

	probeTag []byte // of the last failed check: which hash slot to probe
	detail   []byte // the last error reply
}

// replyLimits bound what a reply may be: those of our scripts are flat arrays of
// a few dozen integers, and error texts are short.
var replyLimits = redisresp.Limits{Bytes: 64 << 10}

// New makes a Conn. Nothing is opened before the first request.
func New(host Host, options Options) *Conn {
	c := &Conn{host: host, options: options, probeTag: []byte("sluice"), decoder: redisresp.NewDecoder(replyLimits)}
	c.random.state = options.Seed | 1
	c.nonce = int64(c.random.next() >> 1)
	c.breaker = breaker{limits: options.Breaker, random: &c.random}
	return c
}

// Begin starts a request's checks: Add each, then Flush. It fails, with nothing
// to undo, when the request must not wait for Redis. The ticket is for Abandon.
func (c *Conn) Begin(nowMicros int64) (ticket uint64, cause Cause) {
	switch {
	case c.breaker.state != Closed:
		cause = BreakerOpen
	case c.waiting >= c.options.MaxPending:
		cause = Overload
	case !c.open && !c.connect(nowMicros):
		cause = Unreachable
		c.failed(cause, nowMicros)
	}
	if cause != NoCause {
		c.host.RequestFailed(cause)
	}
	return c.pipe.next, cause
}

// Add appends one check. The nonce is for Refund.
func (c *Conn) Add(w Waiter, index int, s *Script, tag []byte, cost int64) (nonce int64) {
	c.nonce = (c.nonce + 1) & (1<<63 - 1)
	c.push(entry{waiter: w, index: index, script: s, tag: tag, cost: cost, nonce: c.nonce})
	return c.nonce
}

// push queues an entry and encodes its command.
func (c *Conn) push(e entry) {
	c.out = e.script.appendCall(c.out, &e)
	c.pipe.push(e)
}

// Flush sends what was added since Begin as one request that waits. Failed may
// be called before it returns.
func (c *Conn) Flush(ticket uint64, nowMicros int64) {
	c.pipe.at(c.pipe.next - 1).last = true
	c.waiting++
	c.send(ticket, nowMicros)
}

// send writes the encoded commands, whose entries begin at a position.
func (c *Conn) send(from uint64, nowMicros int64) {
	for i := from; i < c.pipe.next; i++ {
		c.pipe.at(i).sentMicros = nowMicros
	}
	err := c.host.Send(c.out)
	c.out = c.out[:0]
	if err != nil {
		c.drop(Lost, nowMicros)
	}
}

// Refund gives back what a check of this nonce charged at a time of Redis'
// clock. Nobody waits for it; if it is lost, the charge stands.
func (c *Conn) Refund(s *Script, tag []byte, cost, nonce, chargedAtMicros, nowMicros int64) {
	if !c.open || cost == 0 {
		return
	}
	from := c.pipe.next
	c.push(entry{kind: refundEntry, script: s, tag: tag, cost: cost, nonce: nonce, chargedAtMicros: chargedAtMicros})
	c.host.Refunded()
	c.send(from, nowMicros)
}

// Abandon stops the waiting of a request of which count decisions have not come.
// giveBack refunds what they turn out to have charged.
func (c *Conn) Abandon(w Waiter, ticket uint64, count int, giveBack bool) {
	c.pipe.abandon(w, ticket, count, giveBack)
}

// State is the breaker's state.
func (c *Conn) State() BreakerState { return c.breaker.state }

// InFlight is how many requests have commands in the pipe.
func (c *Conn) InFlight() int64 { return c.waiting }

// connect opens a stream and queues its set-up, unless the last attempt failed
// moments ago.
func (c *Conn) connect(nowMicros int64) bool {
	if nowMicros < c.reopenMicros {
		return false
	}
	c.open, c.heard = true, false
	c.out, c.in = c.out[:0], c.in[:0]
	c.decoder.Reset()
	if c.opened {
		c.host.Reconnected()
	}
	c.opened = true
	if err := c.host.OpenStream(); err != nil {
		c.open = false
	}
	if !c.open {
		c.backOff(nowMicros)
		return false
	}
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
		c.pipe.push(entry{kind: setupEntry, sentMicros: nowMicros})
	}
	if o.Database != 0 {
		c.out = redisresp.AppendArray(c.out, 2)
		c.out = redisresp.AppendBulkString(c.out, "SELECT")
		c.out = redisresp.AppendBulkInt(c.out, o.Database)
		c.pipe.push(entry{kind: setupEntry, sentMicros: nowMicros})
	}
}

// backOff postpones the next attempt to open a stream, twice as long each time.
func (c *Conn) backOff(nowMicros int64) {
	b := &c.options.Breaker
	c.backoffMicros = min(max(2*c.backoffMicros, b.MinOpenMicros), b.MaxOpenMicros)
	c.reopenMicros = nowMicros + c.backoffMicros
}
