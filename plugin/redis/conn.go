package redis

import (
	"math/rand/v2"

	"github.com/sluiceproxy/sluice/plugin/metric"
	"github.com/sluiceproxy/sluice/redisresp"
)

// Conn is one pipelined connection with its breaker.
type Conn struct {
	options  Options
	link     link     // the way to Redis
	requests requests // that wait for checks in the pipe
	outbox   outbox   // background commands that wait
}

// New makes a Conn. Nothing is opened before the first request or, with
// Options.Try, the first tick.
func New(host Host, observer Observer, options Options) *Conn {
	c := &Conn{options: options}
	chance := rand.NewPCG(options.Seed, 0)
	b := &options.Breaker
	p := pauses{shortestMicros: b.MinOpenMicros, longestMicros: b.MaxOpenMicros, random: chance}
	c.link = link{
		options: &c.options, observer: observer, requests: &c.requests, outbox: &c.outbox,
		stream: stream{host: host, decoder: redisresp.NewDecoder(replyLimits), reopen: p},
		health: health{host: host, observer: observer, options: &c.options, breaker: breaker{limit: b.Failures, pauses: p}},
	}
	// What waits is looked at four times within the timeout, in whole milliseconds, as Envoy's timers are.
	quarter := (options.TimeoutMicros/4 + 999) / 1000 * 1000
	c.link.pipe.listening.periodMicros = min(max(quarter, minTickMicros), maxTickMicros)
	c.link.rotation.maxAgeMicros = options.MaxAgeMicros
	c.requests.nonce = int64(chance.Uint64() >> 1)
	c.outbox.link, c.outbox.maxPending = &c.link, options.MaxPending
	return c
}

// Begin starts a request's checks: Add each, then Flush, with nothing between.
// Unless it returns NoCause the request must not wait for Redis, and there is
// nothing to undo.
func (c *Conn) Begin(nowMicros int64) Cause {
	cause := NoCause
	switch {
	case c.link.health.breaker.state != Closed:
		cause = BreakerOpen
	case c.requests.waiting >= c.options.MaxPending:
		cause = Overload
	case !c.link.stream.open && !c.link.connect(nowMicros):
		cause = Unreachable
	}
	if cause != NoCause {
		c.link.health.requestFailed(cause, nowMicros)
	}
	if cause == Unreachable {
		c.link.health.failed(cause, nowMicros)
	}
	r := &c.requests
	r.used, r.begunMicros, r.keptMicros, r.added = true, nowMicros, 0, 0
	if cause == NoCause {
		c.outbox.post(later, nowMicros)
	}
	return cause
}

// KeptBack notes that the request whose checks are being added has waited in the worker for
// some listening time: its timeout has begun as much earlier.
func (c *Conn) KeptBack(micros int64) { c.requests.keptMicros = micros }

// ListeningMicros is a time for measuring how long a request is kept back. It stands still
// while the worker does.
func (c *Conn) ListeningMicros(nowMicros int64) int64 { return c.link.pipe.listening.at(nowMicros) }

// Overloaded counts a request that was kept back for the whole timeout.
func (c *Conn) Overloaded(nowMicros int64) { c.link.health.requestFailed(Overload, nowMicros) }

// Add appends one check. w is told about it under this index. The nonce belongs to
// what it charges.
func (c *Conn) Add(w Waiter, index int, check Check) (nonce int64) {
	r := &c.requests
	r.added++
	r.nonce = (r.nonce + 1) & (1<<63 - 1)
	p := &c.link.pipe
	k := p.commands.push()
	k.CopyFrom(&check.Demand)
	*k = command{
		kind: checking, byKey: p.byKey, script: check.Script, Demand: k.Demand, nonce: r.nonce, over: check.Over,
		madeFor: append(k.madeFor[:0], check.MadeFor...),
		strikes: append(k.strikes[:0], check.Strikes...), deferred: check.Deferred,
		change: k.change[:0], waiter: w, index: index, question: r.asked.next, keptMicros: r.keptMicros,
		slots: k.slots[:0],
	}
	k.Costs = appendCosts(k.Costs[:0], check.Costs, check.Cost, len(check.Script.suffixes))
	k.slots = k.script.appendHeld(k.slots, k.nonce, k.Costs)
	p.stamp(k, r.begunMicros)
	p.out = k.appendTo(p.out)
	return r.nonce
}

// Flush sends what was added since Begin as one request that waits. Failed may
// be called before it returns.
func (c *Conn) Flush(nowMicros int64) {
	if r := &c.requests; r.added > 0 {
		*r.asked.push() = question{commands: r.added}
		r.added = 0
		r.waiting++
	}
	if len(c.link.pipe.out) > 0 {
		c.link.transmit(nowMicros)
	}
}

// Refund gives back what a check has charged. It leaves at once, so that no later check
// overtakes it, or waits until Redis is back. If it is lost on the way, the charge stands.
func (c *Conn) Refund(charge Charge, nowMicros int64) {
	if d := &c.outbox.draft; d.makeChange(refunding, &charge, charge.Costs, nowMicros) {
		c.outbox.send(d, nowMicros)
		if len(c.link.pipe.out) > 0 && !c.link.stream.deferring {
			c.link.transmit(nowMicros)
		}
	}
}

// Settle corrects a charge once the response has shown its worth: back is how much less that is
// of each limit or, below 0, how much more. The settlement leaves with the next request or tick,
// in one call with others of the same identity. At most MaxPending settlements are under way;
// if one is beyond that, or lost, its charge stays.
func (c *Conn) Settle(charge Charge, back []int64, nowMicros int64) {
	o := &c.outbox
	if !o.draft.makeChange(settling, &charge, back, nowMicros) {
		return
	}
	if o.settling >= o.maxPending {
		c.link.observer.Count(metric.SettlementLost, 1)
		return
	}
	o.settling++
	o.send(&o.draft, nowMicros)
}

// Release gives slots of an identity back and nothing else. The command leaves at once if
// nothing else is under way, because others may wait for the slots; otherwise with the
// next request, reply or tick. While Redis is away it waits until Redis is back, unless
// the slots have ended by then. part is whose they are, see rule.Demand.Name.
func (c *Conn) Release(script *Script, part []byte, slots Slots, nowMicros int64) {
	if script.slots < 0 || slots.Count <= 0 {
		return
	}
	d := &c.outbox.draft
	d.makeSlotCommand(releasing, script, part, nowMicros)
	d.slots = append(d.slots, slots)
	c.outbox.send(d, nowMicros)
}

// Renew renews slots of a part of an identity. They leave with the next Flush. While Redis is away
// nothing is renewed.
func (c *Conn) Renew(script *Script, part []byte, slots []Slots, nowMicros int64) {
	if c.link.ready(nowMicros) {
		d := &c.outbox.draft
		d.makeSlotCommand(renewing, script, part, nowMicros)
		d.slots = append(d.slots, slots...)
		c.outbox.send(d, nowMicros)
	}
}

// SendOutbox sends the background commands that wait at once: no tick is sure to come.
func (c *Conn) SendOutbox(nowMicros int64) {
	c.link.stream.deferring = true
	c.outbox.post(later, nowMicros)
	c.link.transmitDeferred(nowMicros)
}

// Received takes bytes from the stream: any part of a reply, or many replies.
func (c *Conn) Received(b []byte, nowMicros int64) {
	c.link.stream.deferring = true
	c.link.read(b, nowMicros)
	c.link.tryNext(nowMicros)
	c.outbox.post(whenIdle, nowMicros)
	c.link.transmitDeferred(nowMicros)
}

// Tick tells the checks that have waited too long, replaces a stalled stream, sends the breaker's
// probe when it is due, background commands, and once the startup check, and closes a stream that rests.
func (c *Conn) Tick(nowMicros int64) {
	c.link.pipe.listening.tick(nowMicros)
	c.link.stream.deferring = true
	c.link.expire(nowMicros)
	if b := &c.link.health.breaker; b.state == Open && nowMicros >= b.dueMicros {
		c.link.probe(nowMicros)
	}
	c.link.try(nowMicros)
	c.link.rotate(nowMicros)
	if c.requests.used && nowMicros-c.requests.begunMicros < recentMicros {
		c.link.askStats(nowMicros)
	}
	c.outbox.post(later, nowMicros)
	// The next request opens another stream, which is not told as one in place of a lost one.
	if s := &c.link.stream; s.open && c.link.pipe.commands.len() == 0 && nowMicros-s.usedMicros >= restMicros {
		s.open, s.opened, s.resting = false, false, true
		s.in = s.in[:0]
		s.host.CloseStream()
	}
	c.link.transmitDeferred(nowMicros)
}

// Try has the next tick try Redis, if none has.
func (c *Conn) Try() { c.options.Try = true }

// NextTickMicros is how long Tick may wait; 0 when nothing waits for it.
func (c *Conn) NextTickMicros(nowMicros int64) (next int64) {
	b, period := &c.link.health.breaker, c.link.pipe.listening.periodMicros
	switch {
	case c.link.pipe.commands.len() > 0 || c.link.rotation.role != absent:
		next = period
	case c.options.Try && c.link.startup.state == untried:
		next = minTickMicros
	case b.state == Open:
		next = max(b.dueMicros-nowMicros, minTickMicros)
	case c.link.stream.open:
		next = max(c.link.stream.usedMicros+restMicros-nowMicros, minTickMicros)
	}
	if c.outbox.waiting == 0 {
		return next
	}
	// Something in the outbox may leave, or is given up.
	due, reopenMicros := int64(noBound), c.link.stream.reopenMicros
	if c.link.stream.open {
		reopenMicros = 0
	}
	for k := refunding; k < scripted; k++ {
		q, wait := &c.outbox.queues[k], int64(minTickMicros) // others may wait for what it gives back
		if q.len() == 0 {
			continue
		}
		due = min(due, q.at(q.first).untilMicros)
		if policies[k].leaves == later {
			wait = period
		}
		if b.state == Closed {
			due = min(due, max(nowMicros+wait, reopenMicros))
		}
	}
	background := max(due-nowMicros, minTickMicros)
	if next == 0 {
		return background
	}
	return min(next, background)
}

// Closed tells that the stream is gone.
func (c *Conn) Closed(nowMicros int64) {
	if c.link.stream.open {
		c.link.end(ended{cause: Lost}, nowMicros)
		c.link.tryNext(nowMicros)
	}
}

// ReceivedBeside takes bytes from the other stream, see Host.SwapStreams.
func (c *Conn) ReceivedBeside(b []byte, nowMicros int64) {
	c.link.beside(func() {
		c.link.stream.deferring = true
		c.link.read(b, nowMicros)
		c.link.transmitDeferred(nowMicros)
	})
}

// ClosedBeside tells that the other stream is gone.
func (c *Conn) ClosedBeside(nowMicros int64) {
	c.link.beside(func() { c.Closed(nowMicros) })
}

// State is the breaker's state.
func (c *Conn) State() BreakerState { return c.link.health.breaker.state }

// InFlight is how many requests have commands in the pipe, whether anything
// still depends on them or not. MaxPending bounds it, and with it the memory of
// the Conn.
func (c *Conn) InFlight() int64 { return c.requests.waiting }

// RedisMicros is Redis' time as last heard, and whether it ever was.
func (c *Conn) RedisMicros(nowMicros int64) (micros int64, known bool) {
	return nowMicros + c.requests.replies.clock.aheadMicros, c.requests.replies.clock.known
}

// Used reports whether a request has ever begun. None does on the Conn of Envoy's main thread.
func (c *Conn) Used() bool { return c.requests.used }

// silentMicros is after how long without a reply Redis is silent. Only timeouts that are longer
// than that know the difference.
//
// Bound: us without a reply. Beyond it, Redis counts as silent, and no request waits for others.
// Protects requests from waiting in vain.
const silentMicros = 1_000_000

// Crowded reports whether another request should wait in the worker, where so many requests at
// most, and never more than MaxPending, are to have commands in the pipe: there are as many,
// and Redis is answering. While it does not, the failure mode is sooner with a decision.
func (c *Conn) Crowded(most, nowMicros int64) bool {
	if c.requests.waiting < min(most, c.options.MaxPending) {
		return false
	}
	p := &c.link.pipe
	if r := &c.link.rotation; r.role == retired && p.commands.len() == 0 {
		p = &r.pipe // they are on the stream that was in use before
	}
	return p.commands.len() > 0 && c.link.health.breaker.state == Closed && !p.owes(silentMicros, nowMicros)
}

// Asked returns the requests sent, and the length of the fully answered prefix.
func (c *Conn) Asked() (sent, answered uint64) {
	return c.requests.asked.next, c.requests.asked.first
}

// Idle reports whether every command has been sent and has had its reply.
func (c *Conn) Idle() bool {
	return c.link.pipe.commands.len() == 0 && len(c.link.pipe.out) == 0 && c.outbox.waiting == 0 &&
		c.link.rotation.role == absent
}
