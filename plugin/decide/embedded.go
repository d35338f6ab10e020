package decide

import (
	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/local"
	"github.com/sluiceproxy/sluice/plugin/metric"
)

// embedded is the layer of the embedded store: where no Redis is configured it answers all
// checks, else those that Redis failed in mode local. It may be contended. What it was to be
// given back is charged then until it expires, and of slots it hears with the next call.
type embedded struct {
	store   *local.Store
	record  Recorder
	entries [][]entry // by rule.LimitSet.ID, see parts_embedded.go
	parts   scratch
}

// decide is the store's answer to a check. occupied is how many slots the worker has of the
// identity, and alone whether the store is the only one. Without an answer ok is false, and the
// check stays undecided.
func (e *embedded) decide(plan *algo.Plan, c *Check, occupied int64, alone bool, now Time) (r algo.Ruling, ok bool) {
	e.store.Occupying(occupied)
	r, err := e.store.Decide(plan, c.Tag, now.UnixMicros, c.Costs, c.Decisions, alone)
	if err != nil {
		c.Status = Undecided
		return r, false
	}
	if r.EarnedMicros > 0 {
		e.record.Count(metric.PenaltyEarned, 1)
	}
	return r, true
}

// change gives back so much of each limit, or below 0 charges so much more. occupied is how many
// slots the worker has of the identity then.
func (e *embedded) change(plan *algo.Plan, r *Receipt, back []int64, occupied int64, now Time) {
	e.store.Occupying(occupied)
	_ = e.store.RefundEach(plan, r.tag, r.atMicros, now.UnixMicros, back)
}

// occupy tells the store how many slots of an identity the worker occupies.
func (e *embedded) occupy(plan *algo.Plan, tag []byte, slots int64, now Time) {
	_ = e.store.Occupy(plan, tag, now.UnixMicros, slots)
}
