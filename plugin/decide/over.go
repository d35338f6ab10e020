package decide

import (
	"slices"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/metric"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// Rules with an over. What such a rule rejects is not refused: the request goes on with headers,
// or a purse pays for it. So the rejection concludes nothing, also a remembered one, and the other
// rules are asked. When all of them have answered, and none refuses the request, its purses are
// asked, within the same timeout. A purse's check stands behind those of the rules that apply, and
// is like them in all else: charged, given back, settled and shown.

// early is a purse that was read when its request came, see rule.Rule.Early.
type early struct {
	rule.Applied
	purse   *rule.Rule
	applies bool
}

// expectPurses prepares a question that comes: its checks must not move once stores are asked.
func (w *Worker) expectPurses(q *Question) {
	purses := 0
	for i := range q.Checks {
		c := &q.Checks[i]
		if c.Rule.Over == nil || !c.Enforced() {
			continue
		}
		q.over = true
		if purse := c.Rule.Over.Purse; purse != nil {
			purses++
			w.readEarly(q, purse)
		}
	}
	q.unpaid = purses > 0
	q.Checks = slices.Grow(q.Checks, purses)
}

// readEarly reads a purse that cannot be read later.
func (w *Worker) readEarly(q *Question, purse *rule.Rule) {
	if !purse.Early {
		return
	}
	a, ok := w.host.Purse(q.ContextID, purse)
	q.tags, a.Tag = keep(q.tags, a.Tag)
	q.costs, a.Costs = keep(q.costs, a.Costs)
	q.sizes, a.Sizes = keep(q.sizes, a.Sizes)
	q.early = append(q.early, early{a, purse, ok})
}

// readPurse reads a purse, or finds what was read of it.
func (w *Worker) readPurse(q *Question, purse *rule.Rule) (a rule.Applied, applies bool) {
	for i := range q.early {
		if e := &q.early[i]; e.purse == purse {
			return e.Applied, e.applies
		}
	}
	return w.host.Purse(q.ContextID, purse)
}

// isOver reports whether the check's rejection is one that need not refuse the request.
func (c *Check) isOver() bool {
	return c.Rule.Over != nil && enforcedRejection(c) && !c.By.Blocks()
}

// charges reports whether a purse has to pay for the check.
func (c *Check) charges() bool { return c.isOver() && c.Rule.Over.Purse != nil }

// refuses reports whether the check refuses the request, whatever purses say.
func (c *Check) refuses() bool { return enforcedRejection(c) && !c.Rule.Only && !c.isOver() }

// isRefused reports whether the request is refused, whatever its purses say.
func (q *Question) isRefused() bool {
	return q.first((*Check).refuses) != nil ||
		q.first(func(c *Check) bool { return failsDenying(c) && !c.Rule.Only }) != nil
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

// excuse finds the rejections that do not refuse the request: those that no purse has to pay for,
// that were paid for, and that no purse was asked about because the request is refused anyway.
func (q *Question) excuse() {
	refused := q.isRefused()
	for i := range q.Checks {
		c := &q.Checks[i]
		switch {
		case !c.isOver() || c.Excused:
		case c.Rule.Over.Purse == nil:
			c.Excused = true
		default:
			p := q.purseOf(c)
			c.Excused = refused && p == nil || p != nil && p.Status == Allowed
		}
	}
}

// refusal is the check that a refused request is refused by: the first that is not excused, or the
// purse that did not pay for it. nil if each rejection is excused.
func (q *Question) refusal() *Check {
	c := q.first(func(c *Check) bool { return enforcedRejection(c) && !c.Excused })
	if c != nil && c.isOver() {
		if p := q.purseOf(c); p != nil && p.Status == Rejected {
			return p
		}
	}
	return c
}

// WaitMicros is after how long a refused request would be admitted, as far as its checks say:
// when each rule that refuses it, or the purse of that rule, has room again. algo.Never if
// waiting does not help.
func (q *Question) WaitMicros() (longest int64) {
	for i := range q.Checks {
		c := &q.Checks[i]
		if !enforcedRejection(c) || c.Excused || c.Rule.Only {
			continue
		}
		wait := c.waitMicros()
		if c.isOver() {
			if p := q.purseOf(c); p != nil && p.Status == Rejected {
				wait = sooner(wait, p.waitMicros())
			}
		}
		if longest == algo.Never || wait == algo.Never {
			longest = algo.Never
		} else {
			longest = max(longest, wait)
		}
	}
	return longest
}

// waitMicros is the longest wait of the limits that reject, or what is left of a block.
func (c *Check) waitMicros() (longest int64) {
	if c.By.Blocks() {
		return c.LeftMicros
	}
	for i := range c.Decisions {
		switch d := &c.Decisions[i]; {
		case d.Allowed:
		case d.RetryAfterMicros == algo.Never:
			return algo.Never
		default:
			longest = max(longest, d.RetryAfterMicros)
		}
	}
	return longest
}

// sooner is the shorter of two waits.
func sooner(a, b int64) int64 {
	if a == algo.Never || b != algo.Never && b < a {
		return b
	}
	return a
}

// keepsRemembered reports whether remembered rejections conclude a request, as there is nothing
// else to ask: then they need not be asked about again.
func (q *Question) keepsRemembered() bool {
	for i := range q.Checks {
		c := &q.Checks[i]
		if !c.Decided() || c.Source == FromMemory && (!c.isOver() || c.charges()) {
			return false
		}
	}
	return true
}

// recallOver lets remembered rejections stand for what Redis has left undecided.
func (s *Stores) recallOver(q *Question, now Time) {
	for i := range q.Checks {
		c := &q.Checks[i]
		if c.Rule.Over != nil && enforcedUndecided(c) {
			if s.askAbout(c, memoryLayer, q, now); c.Status == Allowed {
				c.Status, c.Source = Undecided, FromNobody
			}
		}
	}
}

// rememberOver remembers the rejections of a request that goes on.
func (s *Stores) rememberOver(q *Question, now Time) {
	for i := range q.Checks {
		if c := &q.Checks[i]; c.isOver() {
			s.memory.remember(c, false, now)
		}
	}
}

// isPoor reports whether a remembered rejection and that of its purse are enough to refuse a
// request: a client that hammers costs no call.
func (w *Worker) isPoor(q *Question, now Time) bool {
	n := len(q.Checks)
	for i := range n {
		c := &q.Checks[i]
		if c.Rule.Over == nil || !isUnasked(c) {
			continue
		}
		w.stores.askAbout(c, memoryLayer, q, now)
		if c.charges() && w.remembersPurse(q, c, now) {
			w.stores.record.Count(metric.DenyCacheHit, 1)
			return true
		}
	}
	q.unask(FromMemory)
	return false
}

// remembersPurse reports whether the worker remembers that the purse of a check rejects. Then it
// is among the checks.
func (w *Worker) remembersPurse(q *Question, c *Check, now Time) bool {
	a, ok := w.readPurse(q, c.Rule.Over.Purse)
	if !ok || a.Limits == nil {
		return false
	}
	p := q.add(&a)
	w.stores.fit(q, p, now)
	if w.stores.askAbout(p, memoryLayer, q, now); p.Status == Rejected {
		return true
	}
	q.dropPurses(len(q.Checks) - 1)
	return false
}

// dropPurses takes purses back that were not asked.
func (q *Question) dropPurses(n int) {
	clear(q.Checks[n:])
	q.Checks = q.Checks[:n]
}

// pay asks the purses of the rules that are over, once no other rule refuses the request. It
// reports whether the request waits for Redis.
func (w *Worker) pay(q *Question, now Time) (waits bool) {
	q.unpaid = false
	s := w.stores
	s.decideRest(q, now)
	if q.state == Gone || q.overdue || q.isRefused() {
		return false
	}
	first := len(q.Checks)
	if !w.addPurses(q) {
		return false
	}
	poor := false
	for i := first; i < len(q.Checks); i++ {
		p := &q.Checks[i]
		q.settles = q.settles || p.Rule.Settle != nil
		s.askPurse(p, q, now)
		poor = poor || p.Status == Rejected
	}
	return !poor && !s.alone() && !s.AskRedis(q, now)
}

// addPurses adds a check for each purse that is to be asked. It reports whether there is one, and
// none that does not apply to the request: then the purses would be asked in vain.
func (w *Worker) addPurses(q *Question) bool {
	first := len(q.Checks)
	for i := range first {
		c := &q.Checks[i]
		if !c.charges() || q.purseOf(c) != nil {
			continue
		}
		a, ok := w.readPurse(q, c.Rule.Over.Purse)
		switch {
		case !ok:
			q.dropPurses(first)
			return false
		case a.Limits == nil: // without limits a purse always pays
			c.Excused = true
		default:
			q.add(&a)
		}
	}
	return len(q.Checks) > first
}

// askPurse asks the stores that answer at once about a purse: the one that has rejected the rule,
// if it is the embedded one.
func (s *Stores) askPurse(p *Check, q *Question, now Time) {
	if q.first(func(c *Check) bool { return c.Source == FromFallback && c.charges() && q.purseOf(c) == p }) != nil {
		s.askFallback(p, q, now)
		return
	}
	for _, l := range s.order {
		if isUnasked(p) {
			s.askAbout(p, l, q, now)
		}
	}
	if p.Source == FromMemory && p.Status == Allowed {
		p.Status, p.Source = Unasked, FromNobody
	}
}

// payReady asks the purses of the requests that wait for nothing else.
func (w *Worker) payReady(now Time) {
	for range min(w.questions.unpaid.n, maxConclusions) {
		if q := w.questions.unpaid.pop(); !w.pay(q, now) {
			w.questions.ready.push(q)
		}
	}
}

// setHeaders sets the headers of the rules that are over. Where several set one header, that of
// the first rule counts.
func (w *Worker) setHeaders(q *Question) {
	for i := len(q.Checks) - 1; i >= 0; i-- {
		if c := &q.Checks[i]; c.Excused && len(c.Rule.Over.Headers) > 0 {
			w.host.SetHeaders(q.ContextID, c.Rule.Over.Headers)
		}
	}
}

// hasOver reports whether a rule's rejections may be excused.
func hasOver(r *rule.Rule) bool { return r.Over != nil }
