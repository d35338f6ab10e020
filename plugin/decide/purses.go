package decide

import (
	"slices"

	"github.com/sluiceproxy/sluice/plugin/metric"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// The purses of rules with an over: see over.go. A purse is read when it is asked, but for one that
// evaluates expressions, and asked as the rules before it: first what answers at once, then Redis.

// purses is the layer that asks them. Where no rule has an over it is never asked.
type purses struct {
	stores *Stores
	host   Host
	home   *questions
	some   bool // rules have an over
}

func newPurses(home *questions, rules *rule.Set, host Host) purses {
	return purses{stores: home.stores, host: host, home: home, some: slices.ContainsFunc(rules.Rules, hasOver)}
}

// charges reports whether a purse has to pay for the check.
func (c *Check) charges() bool { return c.isOver() && c.Rule.Over.Purse != nil }

// early is a purse that was read when its request came, see rule.Rule.Early.
type early struct {
	rule.Applied
	purse   *rule.Rule
	applies bool
}

// expect prepares a question that comes: its checks must not move once stores are asked.
func (p *purses) expect(q *Question) {
	if !p.some {
		return
	}
	purses := 0
	for i := range q.Checks {
		c := &q.Checks[i]
		if c.Rule.Over == nil || !c.Enforced() {
			continue
		}
		q.over = true
		if purse := c.Rule.Over.Purse; purse != nil {
			purses++
			p.readEarly(q, purse)
		}
	}
	q.unpaid = purses > 0
	q.Checks = slices.Grow(q.Checks, purses)
}

// readEarly reads a purse that cannot be read later.
func (p *purses) readEarly(q *Question, purse *rule.Rule) {
	if !purse.Early {
		return
	}
	a, ok := p.host.Purse(q.ContextID, purse)
	q.tags, a.Tag = keep(q.tags, a.Tag)
	q.costs, a.Costs = keep(q.costs, a.Costs)
	q.sizes, a.Sizes = keep(q.sizes, a.Sizes)
	q.tags, a.Values = keep(q.tags, a.Values)
	q.ahead, a.Ahead = keep(q.ahead, a.Ahead)
	q.early = append(q.early, early{a, purse, ok})
}

// read reads a purse, or finds what was read of it.
func (p *purses) read(q *Question, purse *rule.Rule) (a rule.Applied, applies bool) {
	for i := range q.early {
		if e := &q.early[i]; e.purse == purse {
			return e.Applied, e.applies
		}
	}
	return p.host.Purse(q.ContextID, purse)
}

// isPoor reports whether a remembered rejection and that of its purse are enough to refuse a
// request: a client that hammers costs no call.
func (p *purses) isPoor(q *Question, now Time) bool {
	n := len(q.Checks)
	for i := range n {
		c := &q.Checks[i]
		if c.Rule.Over == nil || !isUnasked(c) {
			continue
		}
		p.stores.askMemory(c, now)
		if c.charges() && p.remembers(q, c, now) {
			p.stores.record.Count(metric.DenyCacheHit, 1)
			return true
		}
	}
	q.unask(FromMemory)
	return false
}

// remembers reports whether the worker remembers that the purse of a check rejects. Then it
// is among the checks.
func (p *purses) remembers(q *Question, c *Check, now Time) bool {
	a, ok := p.read(q, c.Rule.Over.Purse)
	if !ok || a.Limits == nil {
		return false
	}
	purse := q.add(&a)
	p.stores.fit(q, purse, now)
	if p.stores.askMemory(purse, now); purse.Status == Rejected {
		return true
	}
	q.drop(len(q.Checks) - 1)
	return false
}

// setHeaders sets the headers of the rules that are over. Where several set one header, that of
// the first rule counts.
func (p *purses) setHeaders(q *Question) {
	for i := len(q.Checks) - 1; i >= 0; i-- {
		if c := &q.Checks[i]; c.Excused && len(c.Rule.Over.Headers) > 0 {
			p.host.SetHeaders(q.ContextID, c.Rule.Over.Headers)
		}
	}
}
