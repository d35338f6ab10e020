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

// purseOf is the check of the purse that has to pay for a check; nil if it was not asked.
func (q *Question) purseOf(c *Check) *Check {
	for i := range q.Checks {
		if p := &q.Checks[i]; p.Rule == c.Rule.Over.Purse {
			return p
		}
	}
	return nil
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
		p.stores.askAbout(c, memoryLayer, q, now)
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
	if p.stores.askAbout(purse, memoryLayer, q, now); purse.Status == Rejected {
		return true
	}
	p.drop(q, len(q.Checks)-1)
	return false
}

// drop takes purses back that were not asked: the checks from n on.
func (*purses) drop(q *Question, n int) {
	clear(q.Checks[n:])
	q.Checks = q.Checks[:n]
}

// pay asks the purses of the rules that are over, once no other rule refuses the request. It
// reports whether the request waits for Redis.
func (p *purses) pay(q *Question, now Time) (waits bool) {
	q.unpaid = false
	s := p.stores
	s.decideRest(q, now)
	if q.state == Gone || q.overdue || q.isRefused() {
		return false
	}
	first := len(q.Checks)
	if !p.add(q) {
		return false
	}
	poor := false
	for i := first; i < len(q.Checks); i++ {
		purse := &q.Checks[i]
		q.settles = q.settles || purse.Rule.Settle != nil
		p.ask(purse, q, now)
		poor = poor || purse.Status == Rejected
	}
	return !poor && !s.alone() && !s.AskRedis(q, now)
}

// add adds a check for each purse that is to be asked. It reports whether there is one, and
// none that does not apply to the request: then the purses would be asked in vain.
func (p *purses) add(q *Question) bool {
	first := len(q.Checks)
	for i := range first {
		c := &q.Checks[i]
		if !c.charges() || q.purseOf(c) != nil {
			continue
		}
		a, ok := p.read(q, c.Rule.Over.Purse)
		switch {
		case !ok:
			p.drop(q, first)
			return false
		case a.Limits == nil: // without limits a purse always pays
			c.Excused = true
		default:
			q.add(&a)
		}
	}
	return len(q.Checks) > first
}

// ask asks the stores that answer at once about a purse: the one that has rejected the rule, if it
// is the embedded one.
func (p *purses) ask(purse *Check, q *Question, now Time) {
	for i := range q.Checks {
		if c := &q.Checks[i]; c.Source == FromFallback && c.charges() && q.purseOf(c) == purse {
			p.stores.askFallback(purse, q, now)
			return
		}
	}
	for _, l := range p.stores.order {
		if isUnasked(purse) {
			p.stores.askAbout(purse, l, q, now)
		}
	}
	if purse.Source == FromMemory && purse.Status == Allowed {
		purse.Status, purse.Source = Unasked, FromNobody
	}
}

// payReady asks the purses of the requests that wait for nothing else.
func (p *purses) payReady(now Time) {
	for range min(p.home.unpaid.n, maxConclusions) {
		if q := p.home.unpaid.pop(); !p.pay(q, now) {
			p.home.ready.push(q)
		}
	}
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
