package decide

import (
	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/local"
	"github.com/sluiceproxy/sluice/plugin/metric"
	"github.com/sluiceproxy/sluice/plugin/rule"
	"github.com/sluiceproxy/sluice/plugin/slots"
)

// embedded is the layer of the embedded store: where no Redis is configured it answers all
// checks, else those that Redis failed in mode local. It may be contended. What it was to be
// given back is charged then until it expires, and of slots it hears with the next call.
type embedded struct {
	store   *local.Store
	record  Recorder
	book    *slots.Book // knows the slots that the worker occupies in it
	plans   plans       // scratch
	entries [][]entry   // by rule.LimitSet.ID, see parts_embedded.go
	parts   scratch
}

// decide is the store's answer to a check. alone says that it is the only store. Without an
// answer ok is false, and the check stays undecided.
func (e *embedded) decide(c *Check, alone bool, now Time) (r algo.Ruling, ok bool) {
	if c.Values == nil {
		return e.decideWhole(c, alone, now)
	}
	return e.decideParts(c, now)
}

// decideWhole is that to a check of an identity without parts.
func (e *embedded) decideWhole(c *Check, alone bool, now Time) (r algo.Ruling, ok bool) {
	e.store.Occupying(e.occupied(c.Limits, c.Tag))
	r, err := e.store.Decide(e.plans.of(c.Limits, c.Sizes), c.Tag, now.UnixMicros, c.Costs, c.Decisions, alone)
	if err != nil {
		c.Status = Undecided
		return r, false
	}
	if r.EarnedMicros > 0 {
		e.record.Count(metric.PenaltyEarned, 1)
	}
	return r, true
}

// occupied is how many slots the worker has of a part of an identity.
func (e *embedded) occupied(limits *rule.LimitSet, part []byte) int64 {
	if !limits.HasSlots() {
		return 0
	}
	return e.book.Held(limits.ID, part, true)
}
