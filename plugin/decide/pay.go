package decide

// The purses of rules that are over are asked once no other rule refuses the request.

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
			q.drop(first)
			return false
		case a.Limits == nil: // without limits a purse always pays
			c.Excused = true
		default:
			q.add(&a)
		}
	}
	return len(q.Checks) > first
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

// ask asks the stores that answer at once about a purse: the one that has rejected the rule, if it
// is the embedded one.
func (p *purses) ask(purse *Check, q *Question, now Time) {
	for i := range q.Checks {
		if c := &q.Checks[i]; c.Source == FromFallback && c.charges() && q.purseOf(c) == purse {
			p.stores.askFallback(purse, q, now)
			return
		}
	}
	p.stores.fit(q, purse, now)
	for _, l := range p.stores.order {
		if isUnasked(purse) {
			p.stores.askAbout(purse, l, q, now)
		}
	}
	if purse.Source == FromMemory && purse.Status == Allowed {
		purse.Status, purse.Source = Unasked, FromNone
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
