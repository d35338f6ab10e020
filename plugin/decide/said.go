package decide

import "github.com/sluiceproxy/sluice/algo"

// What is said to a request that exceeds what Redis had left, by its last decision.

// reject answers a check of an identity that is blocked.
func (e *said) reject(c *Check, now Time) {
	age := now.SteadyMicros - e.atMicros
	ruling := algo.Ruling{AtMicros: e.storeMicros + age, By: e.block.By, LeftMicros: e.left(now)}
	c.ruled(FromBurst, &ruling, c.Decisions, 0)
}

// decide is a limit's decision about a check. Its wait is never too short: if it does not follow
// from Redis' decision, it lasts until all units are back.
func (e *said) decide(i int, c *Check, age int64) algo.Decision {
	d := e.decisions[i]
	if l := c.Limit(i); !e.isOf(i, c) && l.Algorithm.HasBurst() { // it drains at another rate
		d.ResetAfterMicros = l.RestoreMicros()
	}
	rejected := !d.Allowed
	d.Allowed, d.Hidden = e.fits(i, c), false
	d.Remaining = max(0, e.remaining(i, c)-e.lent[i])
	if d.Allowed {
		d.RetryAfterMicros = 0
	} else {
		d.RetryAfterMicros = e.wait(i, c, &d, rejected)
		if d.RetryAfterMicros != algo.Never {
			d.RetryAfterMicros = max(1, d.RetryAfterMicros-age)
		}
	}
	d.ResetAfterMicros = max(0, d.ResetAfterMicros-age)
	return d
}

// wait is that of a check when Redis had its say.
func (e *said) wait(i int, c *Check, d *algo.Decision, rejected bool) int64 {
	l := c.Limit(i)
	if rejected && e.lent[i] == 0 && e.isOf(i, c) {
		if micros, known := l.RetryAfterFor(c.Costs[i], e.costs[i], d.RetryAfterMicros); known {
			return micros
		}
	}
	if c.Costs[i] > l.Room() {
		return algo.Never
	}
	return d.ResetAfterMicros
}
