package redis

import (
	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/redisresp"
)

// Waiter is a request that waits for Redis. Every request that was flushed gets
// either one Decided for each of its checks, or one Failed and nothing more;
// one that was abandoned gets nothing more. Both may call Refund, and Abandon
// for the request itself, but begin no request.
type Waiter interface {
	// Decided brings the decision of the check that was added with index.
	// atMicros is Redis' time; decisions are good during the call only.
	Decided(index int, atMicros int64, decisions []algo.Decision, allowed bool)
	// Failed says that Redis will not decide this request. The Waiter returns
	// how many further decisions it has been waiting for, which will not come,
	// and whether what they charge is to be given back.
	Failed(cause Cause) (outstanding int, giveBack bool)
}

// Host is what a Conn needs of the world around it. During its calls nothing of
// the Conn is called but Closed, where it says so.
type Host interface {
	// OpenStream opens a stream. Closed may be called before it returns.
	OpenStream() error
	// Send writes whole commands to the open stream. Closed may be called before
	// it returns.
	Send(commands []byte) error
	// CloseStream ends the stream, whose bytes and end are of no interest from
	// then on: neither Received nor Closed is called for it.
	CloseStream()
	// Warn and Info log one line each.
	Warn(line string)
	Info(line string)
	Observer
}

// Observer counts what happens.
type Observer interface {
	// RequestFailed: a request was not decided by Redis.
	RequestFailed(cause Cause)
	// RoundTrip: the time from sending a check to its decision. Late ones are
	// told too, or Redis would never seem slower than the timeout.
	RoundTrip(micros int64)
	// Reconnected: another stream was opened in place of an earlier one.
	Reconnected()
	// Refunded: a command was queued that gives a charge back.
	Refunded()
	// BreakerChanged: the breaker is in another state now.
	BreakerChanged(state BreakerState)
}

// Options configure a Conn. Durations are in microseconds.
type Options struct {
	KeyPrefix          string
	Username, Password string
	Database           int64
	TimeoutMicros      int64
	MaxPending         int64 // requests that may have commands in the pipe
	Breaker            config.Breaker
	Seed               uint64 // for jitter and nonces: different in each worker
}

// Conn is one pipelined connection with its breaker.
type Conn struct {
	host    Host
	options Options
	random  random
	breaker breaker
	reopen  pauses // between attempts to open a stream
	pipe    pipeline
	decoder *redisresp.Decoder

	open         bool  // there is a stream
	heard        bool  // a reply has come on this stream
	opened       bool  // there has been a stream before
	deferring    bool  // commands that are queued now leave together later
	waiting      int64 // requests with commands in the pipe
	nonce        int64
	reopenMicros int64 // no new stream before this time

	out       []byte // commands not sent yet
	in        []byte // the beginning of a reply that is not complete
	values    []int64
	decisions []algo.Decision

	probeTag  []byte // of the last failed check: which hash slot to probe
	openError error  // of the last attempt to open a stream
	complaint complaint
	reported  string // why Redis does not decide, as logged last; "" if it does
}

// replyLimits bound what a reply may be: those of our scripts are flat arrays of
// a few dozen integers, and error texts are short.
var replyLimits = redisresp.Limits{Bytes: 64 << 10}

// New makes a Conn. Nothing is opened before the first request.
func New(host Host, options Options) *Conn {
	c := &Conn{host: host, options: options, probeTag: []byte("sluice"), decoder: redisresp.NewDecoder(replyLimits)}
	c.random.state = options.Seed
	c.nonce = int64(c.random.next() >> 1)
	b := &options.Breaker
	c.reopen = pauses{shortestMicros: b.MinOpenMicros, longestMicros: b.MaxOpenMicros, random: &c.random}
	c.breaker = breaker{limit: b.Failures, pauses: c.reopen}
	return c
}

// Begin starts a request's checks: Add each, then Flush, with nothing between.
// It fails, with nothing to undo, when the request must not wait for Redis. The
// ticket is for Flush and Abandon.
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

// push queues a check or refund and encodes its command.
func (c *Conn) push(e entry) {
	slot := c.pipe.push(e)
	c.out = slot.script.appendCall(c.out, slot)
}

// Flush sends what was added since Begin as one request that waits. Failed may
// be called before it returns.
func (c *Conn) Flush(ticket uint64, nowMicros int64) {
	if ticket == c.pipe.next { // nothing was added
		return
	}
	for i := ticket; i < c.pipe.next; i++ {
		c.pipe.at(i).sentMicros = nowMicros
	}
	c.pipe.at(c.pipe.next - 1).last = true
	c.waiting++
	c.transmit(nowMicros)
}

// Refund gives back what a check of this nonce charged at a time of Redis'
// clock. Nobody waits for it; if it is lost, the charge stands.
func (c *Conn) Refund(s *Script, tag []byte, cost, nonce, chargedAtMicros, nowMicros int64) {
	if !c.open || cost == 0 {
		return
	}
	c.push(entry{
		kind: refundEntry, script: s, tag: tag, cost: cost, nonce: nonce,
		chargedAtMicros: chargedAtMicros, sentMicros: nowMicros,
	})
	c.host.Refunded()
	if !c.deferring {
		c.transmit(nowMicros)
	}
}

// Abandon stops the waiting of a request of which count decisions have not come.
// giveBack refunds what they turn out to have charged.
func (c *Conn) Abandon(w Waiter, ticket uint64, count int, giveBack bool) {
	c.pipe.abandon(w, ticket, count, giveBack, false)
}

// giveUp tells a request that Redis will not decide it, and abandons its other
// entries, which are at position next or later. tag is that of the check that
// failed.
func (c *Conn) giveUp(w Waiter, tag []byte, next uint64, cause Cause) (giveBack bool) {
	c.probeTag = append(c.probeTag[:0], tag...)
	c.host.RequestFailed(cause)
	outstanding, giveBack := w.Failed(cause)
	c.pipe.abandon(w, next, outstanding, giveBack, true)
	return giveBack
}

// State is the breaker's state.
func (c *Conn) State() BreakerState { return c.breaker.state }

// InFlight is how many requests have commands in the pipe, whether they still
// wait or not. MaxPending bounds it, and with it the memory of the Conn. A check
// that is sent again by source counts as a request of its own.
func (c *Conn) InFlight() int64 { return c.waiting }
