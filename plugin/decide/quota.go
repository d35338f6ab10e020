package decide

import (
	"math/rand/v2"
	"slices"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/answer"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/keyhash"
	"github.com/sluiceproxy/sluice/plugin/rule"
	"github.com/sluiceproxy/sluice/plugin/text"
)

// Requests for the quota, which Sluice answers itself. The question about one has the checks of the
// rules that apply to it, as ever, and behind them those that report: what the caller has left of the
// listed rules. Those have cost 0 and are of rules in shadow (rule.Set.ApplyQuota), so that they charge
// nothing, reject no request and are shown in no header; no layer but Redis, or the embedded store, answers
// them. What is particular to them is in this file.

const (
	// Bound: us that a worker answers for an identity's quota from memory. Beyond it, Redis is asked.
	// Protects Redis from callers that ask all the time.
	quotaMicros = 1_000_000
	// Bound: places of identities whose quota is remembered. Beyond it, one takes the place of another.
	// Protects memory.
	maxQuotas = 1024
)

// quotas is the layer that remembers what Redis has said of identities to those who asked for their
// quota. Where there is no quota to ask for, or no Redis, it is not asked: see orderOf.
type quotas struct {
	key  keyhash.Key
	said []quotaSaid // by the hash of a tag and its values
}

// quotaSaid is Redis' word on one.
type quotaSaid struct {
	set       rule.LimitSetID
	tag       []byte
	values    []byte // of the limits with "per", whose counters it was about
	atMicros  int64  // on the worker's steady clock
	ruling    algo.Ruling
	decisions []algo.Decision
	sizes     []algo.Size // that the request brought
	inForce   []algo.Size // these times an operator's factor, which decisions are about
}

func newQuotas(cfg *config.Config, chance rand.Source) quotas {
	if !remembersQuotas(cfg) {
		return quotas{}
	}
	return quotas{keyhash.New(chance.Uint64()), make([]quotaSaid, maxQuotas)}
}

func remembersQuotas(cfg *config.Config) bool { return cfg.Quota != nil && cfg.Redis != nil }

// place is where a check's identity is remembered, if it is.
//
//go:noinline
func (m *quotas) place(a *Ask) *quotaSaid {
	return &m.said[(m.key.Sum(a.Tag)+m.key.Sum(a.Values)+uint64(a.Limits.ID))%maxQuotas]
}

// Reports makes a question that comes one about a request for the quota. It never goes on: Host.Report
// answers it, or Host.Answer.
func (q *Question) Reports(asking rule.Asking) { q.asking = asking }

// isReport reports whether the check is there to be reported, and decides nothing.
func (c *Check) isReport() bool { return c.Rule.Report != rule.Decides }

// recall answers a check from memory, if it reports.
func (m *quotas) recall(q *Question, c *Check, now Time) (r algo.Ruling, known bool) {
	if !c.isReport() {
		return r, false
	}
	e := m.place(&c.Ask)
	age := now.SteadyMicros - e.atMicros
	if age >= quotaMicros || !e.isOf(&c.Ask) || !slices.EqualFunc(e.sizes, c.own, sameSize) {
		return r, false
	}
	return e.answer(q, c, age), true
}

// isOf reports whether it is about the same counters. A place that is empty is about none.
func (e *quotaSaid) isOf(a *Ask) bool {
	same := len(e.tag) > 0 && e.set == a.Limits.ID && text.Equal(e.tag, a.Tag)
	return same && text.Equal(e.values, a.Values)
}

// answer answers a check by Redis' word of so long ago.
func (e *quotaSaid) answer(q *Question, c *Check, age int64) algo.Ruling {
	if e.inForce != nil {
		q.sizes, c.Sizes = keep(q.sizes, e.inForce)
	}
	r := e.ruling
	if r.LeftMicros != algo.Never {
		r.LeftMicros = max(0, r.LeftMicros-age)
	}
	r.AtMicros += age
	copy(c.Decisions, e.decisions)
	for j := range c.Decisions {
		d := &c.Decisions[j]
		d.ResetAfterMicros = max(0, d.ResetAfterMicros-age)
	}
	return r
}

// remember keeps what Redis has said of the checks of a request that report.
func (m *quotas) remember(q *Question, now Time) {
	for i := range q.Checks {
		if c := &q.Checks[i]; c.isReport() && c.Source == FromRedis {
			m.keep(c, now)
		}
	}
}

// keep keeps what Redis has said of a check.
func (m *quotas) keep(c *Check, now Time) {
	e := m.place(&c.Ask)
	e.set, e.tag, e.atMicros = c.Limits.ID, append(e.tag[:0], c.Tag...), now.SteadyMicros
	e.values = append(e.values[:0], c.Values...)
	e.ruling = algo.Ruling{AtMicros: c.AtMicros, Allowed: c.Status == Allowed, By: c.By, LeftMicros: c.LeftMicros}
	e.decisions = append(e.decisions[:0], c.Decisions...)
	e.sizes = append(e.sizes[:0], c.own...)
	e.inForce = append(e.inForce[:0], c.Sizes...)
}

// reportsLocally is a check that reports, and that Redis has not decided, in mode local.
func reportsLocally(c *Check) bool {
	return c.isReport() && c.Status == Undecided && c.Rule.Failure == config.FailLocal
}

// served is the verdict on a request for the quota that is not refused, given that by the rules that
// apply to it.
func (q *Question) served(v Verdict) Verdict {
	for i := range q.Checks {
		if c := &q.Checks[i]; c.Status == Undecided && q.needs(i) {
			return Verdict{Event: Refused, Outcome: answer.FailedDeny}
		}
	}
	v.Outcome, v.By = answer.Quota, nil
	if v.Event == Admitted {
		v.Event = Served
	}
	return v
}

// atItsTurn is the event of a request that a queue has held for long enough.
func (q *Question) atItsTurn() Event {
	if q.asking != rule.NotForQuota {
		return Served
	}
	return TurnComes
}

// needs reports whether a quota cannot be told without a check: one that reports, and of an identity
// that is blocked the one that stands behind it.
func (q *Question) needs(i int) bool {
	switch q.Checks[i].Rule.Report {
	case rule.Reports:
		return true
	case rule.ReportsLimits:
		return q.Checks[i-1].By.Blocks()
	}
	return false
}

// report is the answer to a request for the quota. It is good until the next call.
//
//go:noinline
func (d *display) report(q *Question) *answer.Report {
	r := &d.quota
	*r = answer.Report{Text: d.text(q.verdict), Limits: r.Limits[:0], OtherMethod: q.asking == rule.ByAnotherMethod}
	for i := range q.Checks {
		c := &q.Checks[i]
		switch {
		case !c.isReport() || !c.Decided():
		case c.By.Blocks():
			r.Block(c.LeftMicros)
		case c.Rule.Report == rule.Reports || q.needs(i):
			r.Limits = d.plans.appendShown(r.Limits, c)
		}
	}
	return r
}
