package main

import "github.com/sluiceproxy/sluice/plugin/redis"

// take asks the store about a request's checks. The request is concluded when
// it returns, or waits for Redis.
func (l *limiter) take(r *request) {
	if l.conn == nil {
		l.takeLocal(r)
		l.wake(steadyMicros())
		return
	}
	now := steadyMicros()
	r.outstanding = len(r.checks)
	ticket, cause := l.conn.Begin(now)
	if cause != redis.NoCause {
		r.Failed(cause)
	} else {
		r.ticket = ticket
		for i := range r.checks {
			c := &r.checks[i]
			c.nonce = l.conn.Add(r, i, l.scripts[c.limits.Index], c.tag, c.cost)
		}
		l.conn.Flush(ticket, now)
	}
	l.wake(now)
}

// takeLocal decides a request in the embedded store.
func (l *limiter) takeLocal(r *request) {
	now := unixMicros()
	for i := range r.checks {
		c := &r.checks[i]
		allowed, err := l.local.Take(c.limits.Policy, c.tag, now, c.cost, c.decisions)
		if err != nil {
			r.fail()
			return
		}
		c.atMicros, c.allowed, c.decided = now, allowed, true
		if allowed {
			c.chargedLocal = now
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
			l.conn.Refund(l.scripts[c.limits.Index], c.tag, c.cost, c.nonce, c.chargedRedis, steadyMicros())
			c.chargedRedis = 0
		}
		if c.chargedLocal != 0 {
			_ = l.local.Refund(c.limits.Policy, c.tag, c.chargedLocal, unixMicros(), c.cost)
			c.chargedLocal = 0
		}
	}
}
