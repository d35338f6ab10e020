package main

import (
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/redis"
)

// take asks the store about a request's checks. The request is concluded when
// it returns, or waits for Redis.
func (l *limiter) take(r *request) {
	if l.conn == nil {
		l.takeLocal(r)
		l.wake(steadyMicros())
		return
	}
	now := steadyMicros()
	if l.recall(r, now) {
		l.metrics.count(denyCacheHit, 1)
		r.conclude()
		l.wake(now)
		return
	}
	l.ask(r, now)
	if l.leases != nil {
		for i := range r.checks {
			l.replenish(&r.checks[i], now)
		}
	}
	l.wake(now)
}

// ask sends to Redis the checks that no lease decides.
func (l *limiter) ask(r *request, nowMicros int64) {
	for i := range r.checks {
		if l.leases == nil || !l.spend(&r.checks[i], nowMicros) {
			r.outstanding++
		}
	}
	if r.outstanding == 0 {
		r.conclude()
		return
	}
	if cause := l.begin(nowMicros); cause != redis.NoCause {
		r.failed()
		return
	}
	a := l.newAsking(r)
	r.asking = a
	for i := range r.checks {
		if c := &r.checks[i]; !c.leased {
			from := len(a.tags)
			a.tags = append(a.tags, c.tag...)
			charge := redis.Charge{Script: l.scripts[c.limits.Index], Tag: a.tags[from:], Cost: c.cost}
			c.nonce = l.conn.Add(a, i, charge)
			charge.Nonce = c.nonce
			a.charges[i] = charge
			a.left++
			l.metrics.count(checkSent, 1)
		}
	}
	l.conn.Flush(nowMicros)
}

// asking waits for the checks of a request, which may end before they do.
type asking struct {
	request  *request // nil: it has failed, or its client has left
	limiter  *limiter
	giveBack bool // what is still to be charged
	charges  []redis.Charge
	tags     []byte
	left     int // last calls that have not come
}

// newAsking is one whose last calls have all come, or another.
func (l *limiter) newAsking(r *request) *asking {
	if len(l.askings) == 0 {
		l.askings = append(l.askings, &asking{})
	}
	n := len(l.askings) - 1
	a := l.askings[n]
	l.askings = l.askings[:n]
	*a = asking{request: r, limiter: l, charges: grow(a.charges[:0], len(r.checks)), tags: a.tags[:0]}
	return a
}

// end counts a last call.
func (a *asking) end() {
	if a.left--; a.left == 0 && len(a.limiter.askings) < maxIdle {
		a.limiter.askings = append(a.limiter.askings, a)
	}
}

// Decided implements redis.Waiter.
func (a *asking) Decided(index int, reply *redis.Reply, nowMicros int64) {
	if a.request != nil {
		a.request.decide(index, reply)
	} else if a.giveBack && reply.Allowed {
		a.charges[index].AtMicros = reply.AtMicros
		a.limiter.conn.Refund(a.charges[index], nowMicros)
	}
	a.end()
}

// Failed implements redis.Waiter.
func (a *asking) Failed(int, redis.Cause, int64) {
	a.fail()
	a.end()
}

// Expired implements redis.Waiter.
func (a *asking) Expired(int, int64) { a.fail() }

func (a *asking) fail() {
	if r := a.request; r != nil {
		a.request = nil
		a.giveBack = r.failed()
	}
}

// begin prepares the connection for commands. While requests still wait for a
// stream that has ended, until the next tick, there is none.
func (l *limiter) begin(nowMicros int64) redis.Cause {
	if l.stream.ended {
		if l.conn.InFlight() > 0 {
			l.metrics.failed(redis.Lost)
			return redis.Lost
		}
		l.stream.hangUp(nowMicros)
	}
	return l.conn.Begin(nowMicros)
}

// takeLocal decides a request in the embedded store.
func (l *limiter) takeLocal(r *request) {
	now := unixMicros()
	for i := range r.checks {
		c := &r.checks[i]
		at, allowed, err := l.local.Take(c.limits.Plan, c.tag, now, c.cost, c.decisions)
		if err != nil {
			r.fail()
			return
		}
		c.atMicros, c.allowed, c.decided = at, allowed, true
		if allowed {
			c.chargedLocal = at
		}
	}
	r.conclude()
}

// refund gives back what the checks of a request have charged. Nobody waits for
// it; a refund that fails leaves the charge, which expires like any other.
func (l *limiter) refund(r *request) {
	for i := range r.checks {
		c := &r.checks[i]
		if c.chargedRedis != 0 {
			l.conn.Refund(redis.Charge{
				Script: l.scripts[c.limits.Index], Tag: c.tag, Cost: c.cost, Nonce: c.nonce, AtMicros: c.chargedRedis,
			}, steadyMicros())
			c.chargedRedis = 0
			if l.denied != nil {
				l.denied.Forget(c.limits.Index, c.tag)
			}
		}
		if c.leased {
			l.leases.Unspend(c.lease, c.charge)
			c.leased = false
		}
		if c.chargedLocal != 0 {
			_ = l.local.Refund(c.limits.Plan, c.tag, c.chargedLocal, unixMicros(), c.cost)
			c.chargedLocal = 0
		}
	}
}

// recall decides a request by what Redis said before: if one of its rules is
// known to reject it and nothing that the client is shown is unknown, Redis need
// not be asked. It says whether it did.
func (l *limiter) recall(r *request, nowMicros int64) bool {
	if l.denied == nil {
		return false
	}
	denied := false
	for i := range r.checks {
		c := &r.checks[i]
		if c.rule.Mode != config.Enforce {
			c.allowed = true // a rejected request is not charged to a shadow rule
			continue
		}
		e := l.denied.Find(c.limits.Index, c.tag)
		if e == nil {
			return false
		}
		allowed, known := e.Decide(c.limits.Plan.Limits(), c.cost, nowMicros, c.decisions)
		if !known {
			return false
		}
		c.allowed = allowed
		denied = denied || !allowed
		c.atMicros = e.StoreMicros + nowMicros - e.AtMicros
	}
	return denied
}

// remember keeps what Redis said of a rejected request. It is called when the
// decisions are those without the charge.
func (l *limiter) remember(r *request) {
	if l.denied == nil || r.local {
		return
	}
	now := steadyMicros()
	for i := range r.checks {
		if c := &r.checks[i]; c.decided && c.rule.Mode == config.Enforce {
			l.denied.Remember(c.limits.Index, c.tag, c.cost, c.decisions, now, c.atMicros)
		}
	}
}
