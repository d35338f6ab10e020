package main

import (
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/redis"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// request counts a request by its outcome.
func (m *metrics) request(o outcome) {
	if m != nil {
		m.batch.Inc(m.requests[o])
	}
}

// matched counts what needs no decision: an exempt rule, and unlimited tiers.
func (m *metrics) matched(applied []rule.Applied, exempt *rule.Rule) {
	if m == nil {
		return
	}
	if exempt != nil {
		m.batch.Inc(m.rules[exempt.Index][exempted])
	}
	for i := range applied {
		if a := &applied[i]; a.Limits == nil {
			m.batch.Inc(m.rules[a.Rule.Index][passed])
		}
	}
}

// decided counts the decisions on a request, which goes on if admitted.
func (m *metrics) decided(r *request, admitted bool) {
	if m == nil {
		return
	}
	for i := range r.checks {
		c := &r.checks[i]
		if !c.decided && c.rule.Mode == config.Shadow {
			continue // the deny cache has rejected the request: nothing was asked
		}
		m.batch.Inc(m.rules[c.rule.Index][c.outcome(r.local)])
		for j := range c.decisions {
			d := &c.decisions[j]
			switch limit := &m.limits[c.limits.Index][j]; {
			case !d.Allowed:
				m.batch.Inc(limit.over)
			case admitted && c.allowed && nearLimit(d, c.limits.Labels[j].Capacity):
				m.batch.Inc(limit.near)
			}
		}
		if admitted && c.leased {
			m.count(unitsSpent, 1)
		}
	}
}

// outcome is what the rule's decision is, whatever the others say.
func (c *check) outcome(local bool) outcome {
	switch {
	case !c.allowed && c.rule.Mode == config.Shadow:
		return shadowLimited
	case !c.allowed && local:
		return localLimited
	case !c.allowed:
		return limited
	case local:
		return localPassed
	}
	return passed
}

// undecided counts the rules of a request to which the failure mode applies.
func (m *metrics) undecided(r *request, o outcome) {
	if m == nil {
		return
	}
	for i := range r.checks {
		m.batch.Inc(m.rules[r.checks[i].rule.Index][o])
	}
}

// count counts an event that has happened n times.
func (m *metrics) count(e event, n int64) {
	if m != nil {
		m.batch.Add(m.events[e], n)
	}
}

// failed counts what Redis did not decide.
func (m *metrics) failed(cause redis.Cause) {
	if m != nil {
		m.batch.Inc(m.errors[cause])
	}
}

// answered counts the time in which Redis answered.
func (m *metrics) answered(micros int64) {
	if m != nil {
		m.batch.Observe(m.roundTrip, micros)
	}
}

// broke counts an outage that begins; any other change of the breaker shows with
// the next flush.
func (m *metrics) broke(before, now redis.BreakerState) {
	if m == nil {
		return
	}
	m.batch.Touch()
	if before == redis.Closed && now == redis.Open {
		m.count(breakerOpened, 1)
	}
}

// pending says whether the timer is set for the next flush. The timer of no
// metrics needs not be.
func (m *metrics) pending() bool { return m == nil || m.batch.Pending() }

// nextMicros is the time until the next flush; 0 if there is nothing to flush.
func (m *metrics) nextMicros(nowMicros int64) int64 {
	if m == nil {
		return 0
	}
	return m.batch.NextMicros(nowMicros)
}

// tick hands to Envoy what has changed, when it is time.
func (m *metrics) tick(l *limiter, nowMicros int64) {
	if m == nil {
		return
	}
	m.observe(l)
	if m.batch.Due(nowMicros) {
		m.batch.Flush()
	}
}

// close hands over the rest.
func (m *metrics) close(l *limiter) {
	if m != nil {
		m.observe(l)
		m.batch.Close()
	}
}

// observe sets what is not counted as it happens.
func (m *metrics) observe(l *limiter) {
	if l.conn != nil && l.stream.used { // Envoy's main thread has a limiter, too, which is never asked
		for s := range m.breaker {
			in := int64(0)
			if l.conn.State() == redis.BreakerState(s) {
				in = 1
			}
			m.batch.Set(m.breaker[s], in)
		}
		m.batch.Set(m.inFlight, l.conn.InFlight())
	}
	m.batch.Set(m.queued, int64(len(l.queue.heap)))
	m.batch.Set(m.generation, loads)
	m.batch.Set(m.loadTime, loadSeconds)
	if l.local != nil {
		n := l.local.Evictions()
		m.count(identityEvicted, int64(n-m.evicted))
		m.evicted = n
	}
}
