package main

import (
	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/answer"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/lease"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// check is one applying rule's question and answer.
type check struct {
	rule      *rule.Rule
	limits    *rule.LimitSet
	tag       []byte
	cost      int64
	decisions []algo.Decision
	atMicros  int64 // on the clock of the store that decided
	allowed   bool
	decided   bool

	lease  *lease.Lease // nil: the limit is not leased
	leased bool         // decided with a unit of the lease
	charge lease.Charge // of that unit

	nonce        int64
	chargedRedis int64 // when Redis charged the cost, on its clock; 0 if it did not
	chargedLocal int64 // likewise the embedded store
}

// keep copies what applies, as the request may outlive the matcher's memory.
func (r *request) keep(applied []rule.Applied) {
	for i := range applied {
		r.tags = append(r.tags, applied[i].Tag...)
	}
	tags := r.tags
	decisions := 0
	for i := range applied {
		a := &applied[i]
		tag := tags[:len(a.Tag):len(a.Tag)]
		tags = tags[len(a.Tag):]
		if a.Limits != nil {
			r.checks = append(r.checks, check{rule: a.Rule, limits: a.Limits, tag: tag, cost: a.Cost})
			decisions += len(a.Limits.Limits)
		}
	}
	r.decisions = grow(r.decisions, decisions)
	rest := r.decisions
	for i := range r.checks {
		n := len(r.checks[i].limits.Limits)
		r.checks[i].decisions, rest = rest[:n:n], rest[n:]
	}
}

// rejecting is the first check that rejects the request, nil if none does.
func (r *request) rejecting() *check {
	for i := range r.checks {
		if c := &r.checks[i]; !c.allowed && c.rule.Mode == config.Enforce {
			return c
		}
	}
	return nil
}

// uncharge makes the decisions of checks that allowed what they would have been
// without the charge: a rejected request consumes nothing.
func (r *request) uncharge() {
	for i := range r.checks {
		c := &r.checks[i]
		if c.chargedRedis == 0 && c.chargedLocal == 0 && !c.leased {
			continue
		}
		for j := range c.decisions {
			c.decisions[j] = c.limits.Labels[j].Uncharged(c.decisions[j], c.cost)
		}
	}
}

// show collects what the client is shown: the limits of enforced rules.
func (r *request) show() {
	r.limits = r.limits[:0]
	for i := range r.checks {
		c := &r.checks[i]
		if c.rule.Mode != config.Enforce {
			continue
		}
		r.atMicros = c.atMicros
		for j := range c.decisions {
			r.limits = append(r.limits, answer.Limit{Label: &c.limits.Labels[j], Decision: c.decisions[j]})
		}
	}
}

// allowedOutcome is the outcome of a request that goes on.
func (r *request) allowedOutcome() (o outcome, text string) {
	for i := range r.checks {
		if c := &r.checks[i]; !c.allowed {
			return shadowLimited, c.rule.Outcomes.Shadow
		}
	}
	if r.local {
		return localPassed, answer.LocalAllowed
	}
	return passed, answer.Allowed
}

// delayMicros is how long the request must be held: the longest of its queues.
func (r *request) delayMicros() (delay int64) {
	for i := range r.checks {
		c := &r.checks[i]
		if c.rule.Mode != config.Enforce {
			continue
		}
		for j := range c.decisions {
			delay = max(delay, c.decisions[j].DelayMicros)
		}
	}
	return delay
}

// decided says whether every check has been decided.
func (r *request) decided() bool {
	for i := range r.checks {
		if !r.checks[i].decided {
			return false
		}
	}
	return len(r.checks) > 0
}
