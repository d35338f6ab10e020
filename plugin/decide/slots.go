package decide

import (
	"math/rand/v2"

	"github.com/sluiceproxy/sluice/plugin/must"
	"github.com/sluiceproxy/sluice/plugin/redis"
	"github.com/sluiceproxy/sluice/plugin/rule"
	"github.com/sluiceproxy/sluice/plugin/slots"
)

// Slots: the units of a concurrency limit that a request occupies, from the decision on until its
// stream ends.

// inFlight is the layer that knows what this worker's requests occupy, and has it renewed.
type inFlight struct {
	book    *slots.Book
	renewed []redis.Slots // scratch
	parts   scratch       // see parts.go
}

func newInFlight(rules *rule.Set, chance rand.Source) inFlight {
	ttls := make([]int64, len(rules.LimitSets)) // 0: no slots
	for i, set := range rules.LimitSets {
		if j, ok := set.Plan.Slots(); ok {
			ttls[i] = set.Limits[j].TTLMicros
		}
	}
	return inFlight{book: slots.New(ttls, chance.Uint64())}
}

// occupy notes the slots that a receipt is of, if any.
func (f *inFlight) occupy(r *Receipt, nowMicros int64) {
	if r.source == FromNone {
		return
	}
	if r.values != nil {
		f.occupyParts(r, nowMicros)
		return
	}
	if i, ok := r.limits.Plan.Slots(); ok && r.costs[i] > 0 {
		must.Hold(!r.slot.Held(), "a receipt's slots are occupied once")
		r.slot = slots.Slot{Nonce: r.nonce, Slots: r.costs[i]}
		f.book.Occupy(&r.slot, r.limits.ID, r.tag, r.source != FromRedis, nowMicros)
	}
}

// occupyParts notes the slots that a receipt is of: of each limit those of its part.
func (f *inFlight) occupyParts(r *Receipt, nowMicros int64) {
	at, further := &r.slot, 0
	for i, cost := range r.costs {
		if cost > 0 && r.limits.Plan.TakesNonce(i) {
			further++
		}
	}
	if further > 1 {
		r.further = make([]slots.Slot, further-1)
	}
	further = 0
	for i, cost := range r.costs {
		if cost <= 0 || !r.limits.Plan.TakesNonce(i) {
			continue
		}
		if further > 0 {
			at = &r.further[further-1]
		}
		*at = slots.Slot{Nonce: r.nonce, Slots: cost, Further: further > 0}
		further++
		f.parts.part = r.limits.AppendPart(f.parts.part[:0], r.tag, i, r.values)
		f.book.Occupy(at, r.limits.ID, f.parts.part, r.source != FromRedis, nowMicros)
	}
}

//go:inline
func occupiesSlots(c *Check) bool { return c.charged.receipt.slot.Held() }
