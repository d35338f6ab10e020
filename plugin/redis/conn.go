package redis

import (
	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/redisresp"
)

// Waiter is told what becomes of each check that was flushed. Each check gets
// exactly one last call, Decided or Failed, however long that takes; Expired may
// come before it, once. In a call a Waiter may refund charges, but begins no
// request.
type Waiter interface {
	// Resize tells that nothing was charged, as the check's sizes are for another
	// time than r.AtMicros or, if r.Factor is not 0, for another factor than that. It
	// returns the sizes to ask with once more, which are copied; nil if there are none,
	// and the reply makes no sense.
	Resize(index int, r *Reply, nowMicros int64) []algo.Size
	// Decided brings Redis' answer. After Expired it is a late one.
	Decided(index int, r *Reply, nowMicros int64)
	// Failed tells that Redis will never decide this check.
	Failed(index int, cause Cause, nowMicros int64)
	// Expired tells that the check has waited for the timeout.
	Expired(index int, nowMicros int64)
}

// Host is what a Conn needs of the world around it. A Host must not call back
// into the Conn during these calls, except for Closed where noted.
type Host interface {
	// OpenStream opens a stream. Closed may be called before it returns.
	OpenStream() error
	// Send writes whole commands to the open stream. Closed may be called before
	// it returns.
	Send(commands []byte) error
	// CloseStream ends the stream. From then on neither Received nor Closed is
	// called for it.
	CloseStream()
	// Warn and Info log one line each.
	Warn(line string)
	Info(line string)
	// Tried brings the line about the trial, see Options.Try: Redis can be used,
	// or not.
	Tried(ok bool, line string)
}

// Observer counts what happens. It calls nothing of the Conn.
type Observer interface {
	// RequestFailed: Redis did not decide a request, or one of its checks. A
	// request is told once, with the first cause.
	RequestFailed(cause Cause)
	// RoundTrip: the time from sending a check to its decision. Late ones are
	// told too, or Redis would never seem slower than the timeout.
	RoundTrip(micros int64)
	// Reconnected: a stream was opened in place of one that was lost. What
	// answers now may not hold the charges that were made before.
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
	Cluster            string // Envoy's name of the cluster, for the log
	Try                bool   // whether to try Redis with the first tick
	Seed               uint64 // for jitter and nonces: different in each worker
}

// Conn is one pipelined connection with its breaker.
type Conn struct {
	host     Host
	observer Observer
	options  Options
	random   random
	nonce    int64

	pipe      pipeline
	settling  settling
	releasing releasing
	listening listening
	byKey     bool // scripts may not call TIME, see clock.go
	breaker   breaker
	stream    stream

	used        bool   // Begin has been called
	begunMicros int64  // when that was
	added       int    // checks since then
	out         []byte // commands that are queued
	deferring   bool   // they leave together at the end of the callback
	reply       Reply  // of the check that is being answered
	values      []int64
	clock       clock
	retries     [Retries]int64

	trial        trial
	complaint    complaint
	reported     string // why Redis does not decide, as logged last; "" if it does
	warned       bool   // a failed request has been logged
	warnedMicros int64  // the last time
}

// New makes a Conn. Nothing is opened before the first request or, with
// Options.Try, the first tick.
func New(host Host, observer Observer, options Options) *Conn {
	c := &Conn{host: host, observer: observer, options: options}
	c.random.state = options.Seed
	c.nonce = int64(c.random.next() >> 1)
	c.listening.periodMicros = tickMicros(options.TimeoutMicros)
	b := &options.Breaker
	p := pauses{shortestMicros: b.MinOpenMicros, longestMicros: b.MaxOpenMicros, random: &c.random}
	c.breaker = breaker{limit: b.Failures, pauses: p}
	c.stream = stream{decoder: redisresp.NewDecoder(replyLimits), reopen: p}
	return c
}

// Begin starts a request's checks: Add each, then Flush, with nothing between.
// Unless it returns NoCause the request must not wait for Redis, and there is
// nothing to undo.
func (c *Conn) Begin(nowMicros int64) Cause {
	c.used = true
	cause := NoCause
	switch {
	case c.breaker.state != Closed:
		cause = BreakerOpen
	case c.pipe.waiting >= c.options.MaxPending:
		cause = Overload
	case !c.stream.open && !c.connect(nowMicros):
		cause = Unreachable
	}
	if cause != NoCause {
		c.requestFailed(cause, nowMicros)
	}
	if cause == Unreachable {
		c.failed(cause, nowMicros)
	}
	c.begunMicros, c.added = nowMicros, 0
	if cause == NoCause {
		c.pushSettlements(nowMicros)
		c.pushReleases(nowMicros)
	}
	return cause
}

// Add appends one check. w is told about it under this index. The nonce belongs to
// the charge when it is refunded.
func (c *Conn) Add(w Waiter, index int, charge Charge) (nonce int64) {
	c.nonce = (c.nonce + 1) & (1<<63 - 1)
	charge.Nonce, charge.AtMicros = c.nonce, 0
	c.push(entry{waiter: w, index: index, question: c.pipe.asked.next, charge: charge}, c.begunMicros)
	c.added++
	return c.nonce
}

// Flush sends what was added since Begin as one request that waits. Failed may
// be called before it returns.
func (c *Conn) Flush(nowMicros int64) {
	if c.added > 0 {
		c.pipe.ask(c.added)
		c.added = 0
	}
	if len(c.out) > 0 {
		c.transmit(nowMicros)
	}
}

// push queues a check, refund or settlement, which is sent at nowMicros, and
// encodes its command.
func (c *Conn) push(e entry, nowMicros int64) {
	e.byKey = c.byKey
	c.stamp(&e, nowMicros)
	slot := c.pipe.push(e)
	c.out = slot.charge.Script.appendCall(c.out, slot)
}

// pushAgain queues such an entry once more. Its timeout still counts from
// when it was first sent.
func (c *Conn) pushAgain(e *entry) {
	slot := c.pipe.push(*e)
	c.out = slot.charge.Script.appendCall(c.out, slot)
}

// Received takes bytes from the stream: any part of a reply, or many replies.
func (c *Conn) Received(b []byte, nowMicros int64) {
	c.deferring = true
	c.read(b, nowMicros)
	c.release(nowMicros)
	c.transmitDeferred(nowMicros)
}

// Tick tells the checks that have waited too long, replaces a stalled stream,
// sends the breaker's probe when it is due, settlements, and once the trial, and
// closes a stream that rests.
func (c *Conn) Tick(nowMicros int64) {
	c.listening.tick(nowMicros)
	c.deferring = true
	c.expire(nowMicros)
	if c.owes(stalledTimeouts*c.options.TimeoutMicros, nowMicros) {
		c.hangUp(ended{cause: Lost}, nowMicros)
	}
	if c.breaker.state == Open && nowMicros >= c.breaker.dueMicros {
		c.probe(nowMicros)
	}
	c.try(nowMicros)
	c.settle(nowMicros)
	c.release(nowMicros)
	c.rest(nowMicros)
	c.transmitDeferred(nowMicros)
}

// NextTickMicros is how long Tick may wait; 0 when nothing waits for it.
func (c *Conn) NextTickMicros(nowMicros int64) int64 {
	switch {
	case c.releasing.queue.len() > 0 && c.breaker.state == Closed:
		return minTickMicros // others wait for the slots
	case c.pipe.entries.len() > 0 || c.settling.queue.len() > 0:
		return c.listening.periodMicros
	case c.options.Try && c.trial.state == untried:
		return minTickMicros
	case c.breaker.state == Open:
		return max(c.breaker.dueMicros-nowMicros, minTickMicros)
	case c.stream.open:
		return max(c.stream.usedMicros+restMicros-nowMicros, minTickMicros)
	}
	return 0
}

// Closed tells that the stream is gone.
func (c *Conn) Closed(nowMicros int64) {
	if c.stream.open {
		c.end(ended{cause: Lost}, nowMicros)
	}
}

// State is the breaker's state.
func (c *Conn) State() BreakerState { return c.breaker.state }

// InFlight is how many requests have commands in the pipe, whether anything
// still depends on them or not. MaxPending bounds it, and with it the memory of
// the Conn.
func (c *Conn) InFlight() int64 { return c.pipe.waiting }

// crowd is how many requests have commands in the pipe at most before others wait in
// the worker. Redis answers as many within some five milliseconds, and with a shard that
// hangs, for 20 ms each time, they are still 25,000 a second.
const crowd = 512

// slowPeriods is after how many periods of ticks without a reply Redis is slow: three
// quarters of the timeout, and 60 ms at most.
const slowPeriods = 3

// Crowded reports whether another request had better wait in the worker: many wait for
// Redis, or would go before others, and that is not because Redis is slow. They have come
// in one go, and the worker has not yet read what became of them. To send thousands at
// once would be no sooner done, and Redis would seem slow to the last of them.
func (c *Conn) Crowded(others bool, nowMicros int64) bool {
	return (others || c.pipe.waiting >= min(crowd, c.options.MaxPending)) &&
		c.pipe.entries.len() > 0 && c.breaker.state == Closed && !c.owes(slowPeriods*c.listening.periodMicros, nowMicros)
}

// Used reports whether a request has ever begun. Envoy's main thread has a Conn,
// too, on which none does.
func (c *Conn) Used() bool { return c.used }

// Idle reports whether every command has been sent and has had its reply.
func (c *Conn) Idle() bool {
	return c.pipe.entries.len() == 0 && len(c.out) == 0 && c.settling.queue.len() == 0 && c.releasing.queue.len() == 0
}
