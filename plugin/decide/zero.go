package decide

import "github.com/sluiceproxy/sluice/algo"

// rejectByZero answers the checks that a limit of 0 rejects: nobody needs to be
// asked. It reports whether an enforced rule rejects, which concludes the request.
func (q *Question) rejectByZero() (rejected bool) {
	for i := range q.Checks {
		c := &q.Checks[i]
		if !c.hasZero() {
			continue
		}
		for j := range c.Decisions {
			if l := c.Limit(j); l.Units == 0 && c.Costs[j] > 0 {
				c.Decisions[j] = algo.Decision{
					RetryAfterMicros: algo.Never, BeginsMicros: l.Bounds[1], EndsMicros: l.Bounds[2],
				}
			} else {
				c.Decisions[j] = algo.Decision{Allowed: true} // it was not asked, and is not shown
			}
		}
		c.Status, c.Source = Rejected, FromLimit
		rejected = rejected || c.Enforced()
	}
	return rejected
}

// hasZero reports whether a limit of the check is 0, and it wants something of it. An
// operator may have freed the identity of that, and a penalty counts it.
func (c *Check) hasZero() bool {
	if c.Rule.HasTerms() {
		return false
	}
	for j := range c.Costs {
		if l := c.Limit(j); l.Units == 0 && c.Costs[j] > 0 {
			return true
		}
	}
	return false
}
