package decide

import (
	"math/rand/v2"

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
	name    []byte        // scratch, of a part
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

// occupied is the slots of a receipt, from the decision on until the request is over.
type occupied struct {
	slots.Slot
	further []slots.Slot // of further limits
}

// occupy notes the slots that a check has charged, of each part of its identity.
func (f *inFlight) occupy(c *Check, now Time) {
	r := &c.charged.receipt
	for i := range r.Limits.Parts {
		p := &r.Limits.Parts[i]
		name, _ := c.Name(p, &f.name)
		for _, limit := range p.Limits {
			if r.Costs[limit] <= 0 || r.Limits.Limits[limit].TTLMicros == 0 {
				continue
			}
			at := &r.Slot
			if at.Held() {
				if r.further == nil { // it never grows: slots stay where they are
					r.further = make([]slots.Slot, 0, len(r.Costs)-1)
				}
				r.further = append(r.further, slots.Slot{Further: true})
				at = &r.further[len(r.further)-1]
			}
			at.Nonce, at.Slots = r.nonce, r.Costs[limit]
			f.book.Occupy(at, r.Limits.ID, name, r.source != FromRedis, now.SteadyMicros)
		}
	}
}

// InFlight is how many requests hold slots of a list of limits.
func (w *Worker) InFlight(set rule.LimitSetID) int64 { return w.stores.slots.book.InFlight(set) }

//go:inline
func occupiesSlots(c *Check) bool { return c.charged.receipt.Held() }

// Slots are given back when a request ends, and renewed until then.

// release gives the slots of a receipt back to the store that gave them, and nothing else of the charge.
func (s *Stores) release(r *Receipt, now Time) {
	if !r.Held() {
		return
	}
	for i := -1; i < len(r.further); i++ {
		slot := &r.Slot
		if i >= 0 {
			slot = &r.further[i]
		}
		freed := redis.Slots{Nonce: slot.Nonce, Count: slot.Slots}
		if id := s.slots.book.Vacate(slot); r.source != FromRedis {
			s.embedded.occupy(r.Limits, id.Tag, s.calendars.sizes(r.Limits.ID, now.UnixMicros), id.Slots, now)
		} else {
			s.remote.conn.Release(s.remote.scripts[id.Set], id.Tag, freed, now.SteadyMicros)
		}
	}
}

// Bound: slots that one command renews. Beyond it, the rest takes another command. Protects Redis
// from a long call.
const maxRenewed = 256

// renewer renews slots at a time, in the store that they are in.
type renewer struct {
	*Stores
	now Time
}

// RenewSlots implements slots.Renewer.
func (r renewer) RenewSlots(id *slots.Identity, due []*slots.Slot) {
	if id.Embedded {
		limits, sizes := r.calendars.sets[id.Set], r.calendars.sizes(id.Set, r.now.UnixMicros)
		r.embedded.occupy(limits, id.Tag, sizes, id.Slots, r.now)
		return
	}
	f := &r.slots
	for len(due) > 0 {
		n := min(len(due), maxRenewed)
		f.renewed = f.renewed[:0]
		for _, slot := range due[:n] {
			f.renewed = append(f.renewed, redis.Slots{Nonce: slot.Nonce, Count: slot.Slots})
		}
		r.remote.conn.Renew(r.remote.scripts[id.Set], id.Tag, f.renewed, r.now.SteadyMicros)
		due = due[n:]
	}
}

// vacate notes that the slots of a receipt, if any, are free.
func (f *inFlight) vacate(r *Receipt) {
	if !r.Held() {
		return
	}
	for i := range r.further {
		f.book.Vacate(&r.further[i])
	}
	f.book.Vacate(&r.Slot)
}
