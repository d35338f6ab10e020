package local

import (
	"slices"

	"github.com/sluiceproxy/sluice/algo"
)

// decide decides for the identity that was loaded. It reports whether anything is to
// be saved.
func (id *identity) decide(p *algo.Plan, costs []int64, out []algo.Decision) (r algo.Ruling, changed bool) {
	r.AtMicros = id.atMicros
	if id.penalty != nil {
		id.penaltyState, changed = id.penalty.Rebase(id.penaltyState, id.atMicros)
		if r.LeftMicros = id.penalty.LeftMicros(id.penaltyState, id.atMicros); r.LeftMicros > 0 {
			r.By = algo.ByPenalty
			return r, changed
		}
	}
	changed = id.refresh(p, costs, out) || changed
	r.Allowed = p.DecideAs(id.holder, id.states, id.atMicros, costs, out)
	r.Over = r.Allowed && p.OthersPay(out)
	switch {
	case r.Allowed && len(costs) > 0 && slices.Max(costs) > 0:
		id.consumed, changed = consumed(p.Limits(), out), true
	case !r.Allowed && id.penalty != nil:
		r.EarnedMicros, changed = id.strike(), true
		algo.Earned(out, r.EarnedMicros)
	}
	return r, changed
}

// refresh brings the states up to date before a decision. It reports whether the clock was set
// back.
func (id *identity) refresh(p *algo.Plan, costs []int64, out []algo.Decision) (changed bool) {
	changed = p.RebaseFor(id.states, id.atMicros, costs, out)
	if _, ok := p.Slots(); ok {
		p.Renew(id.states, id.atMicros, id.holder, id.held)
	}
	return changed
}

// strike counts a rejection. An identity that has earned a block is one of those that
// would be given most if it were forgotten.
func (id *identity) strike() (earnedMicros int64) {
	id.penaltyState, earnedMicros = id.penalty.Strike(id.penaltyState, id.atMicros)
	if earnedMicros > 0 {
		id.consumed = 255
	}
	return earnedMicros
}
