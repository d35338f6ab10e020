package decide

import "github.com/sluiceproxy/sluice/algo"

// The layer of limits that are 0. It has no state and asks no store.

// rejectZero reports whether a limit of the check is 0 and rejects it, and fills in what each
// limit says then.
func (a *Ask) rejectZero(out []algo.Decision) (rejects bool) {
	if !a.hasZero() {
		return false
	}
	for j := range out {
		out[j] = algo.Decision{Allowed: true} // it was not asked, and is not shown
		if l := a.Limit(j); l.Units == 0 && a.Costs[j] > 0 && !l.Guarantee {
			out[j] = algo.Decision{
				RetryAfterMicros: algo.Never, BeginsMicros: l.Bounds[1], EndsMicros: l.Bounds[2],
			}
		}
	}
	return true
}

// hasZero reports whether a limit of the check is 0, and it wants something of it. An
// operator may have freed the identity of that, a penalty counts it, and other limits may pay.
func (a *Ask) hasZero() bool {
	if a.Rule.HasTerms() || a.Limits.Pays() {
		return false
	}
	for j := range a.Costs {
		if l := a.Limit(j); l.Units == 0 && a.Costs[j] > 0 && !l.Guarantee { // who has none may borrow
			return true
		}
	}
	return false
}
