package decide

import (
	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/redis"
	"github.com/sluiceproxy/sluice/plugin/rule"
	"github.com/sluiceproxy/sluice/plugin/slots"
)

// This file is about slots: what a request holds of a limit on what is in flight, from
// the decision on until its stream ends.

// newSlots makes the Book of what this worker holds; nil if no limit has slots.
func newSlots(rules *rule.Set) *slots.Book {
	ttls, some := make([]int64, len(rules.LimitSets)), false
	for i, set := range rules.LimitSets {
		if j, ok := set.Plan.Slots(); ok {
			ttls[i], some = set.Limits[j].TTLMicros, true
		}
	}
	if !some {
		return nil
	}
	return slots.New(ttls)
}

// slotsOf is how many slots a check takes.
func slotsOf(c *Check) int64 {
	if i, ok := c.Limits.Plan.Slots(); ok {
		return c.Costs[i]
	}
	return 0
}

func holdsSlots(c *Check) bool { return c.slot.Held() }

// hold notes the slots that a check has just taken.
func (s *Stores) hold(c *Check, nowMicros int64) {
	if s.slots == nil || c.receipt.source == FromNobody {
		return
	}
	if n := slotsOf(c); n > 0 {
		c.slot = slots.Slot{Nonce: c.nonce, Slots: n}
		s.slots.Take(&c.slot, c.Limits.Index, c.Tag, c.Source != FromRedis, nowMicros)
	}
}

// LetGo gives back all slots that a question holds, and nothing else.
func (s *Stores) LetGo(q *Question, now Time) {
	for i := range q.Checks {
		s.letGo(&q.Checks[i], now)
	}
}

// letGo gives the slots of a check back, to the store that gave them: nothing else of
// what it has charged.
func (s *Stores) letGo(c *Check, now Time) {
	if !c.slot.Held() {
		return
	}
	nonce := c.slot.Nonce
	if s.drop(c, now) {
		s.conn.Release(redis.Charge{
			Script: s.scripts[c.Limits.Index], Tag: c.Tag, Costs: c.Costs, Nonce: nonce,
		}, now.SteadyMicros)
	}
}

// drop notes that a check holds no slots any more, and tells the embedded store. It
// reports whether they are Redis'.
func (s *Stores) drop(c *Check, now Time) (inRedis bool) {
	if !c.slot.Held() {
		return false
	}
	id := s.slots.Drop(&c.slot)
	if !id.Embedded {
		return true
	}
	// The store may be contended; then it hears with the next call.
	_ = s.embedded.Hold(s.planNow(c.Limits, now), c.Tag, now.UnixMicros, id.Slots)
	return false
}

// planNow is a plan as it is at a time, whatever came with a request.
func (s *Stores) planNow(set *rule.LimitSet, now Time) *algo.Plan {
	return s.planOf(set, s.calendars.sizes(set.Index, now.UnixMicros))
}

// InFlight is how many requests hold slots of a list of limits.
func (s *Stores) InFlight(set int) int64 {
	if s.slots == nil {
		return 0
	}
	return s.slots.InFlight(set)
}

// renewSlots has the slots renewed that are due.
func (s *Stores) renewSlots(now Time) {
	if s.slots == nil || !s.slots.Due(now.SteadyMicros) {
		return
	}
	s.slots.Renew(now.SteadyMicros, renewer{s, now})
	if s.conn != nil {
		s.conn.Flush(now.SteadyMicros)
	}
}

// maxRenewed bounds how many slots one command renews: it keeps Redis from others for a
// fraction of a millisecond.
const maxRenewed = 256

// renewer renews slots at a time.
type renewer struct {
	*Stores
	now Time
}

// RenewSlots implements slots.Renewer.
func (r renewer) RenewSlots(id *slots.Identity, due []*slots.Slot) {
	s := r.Stores
	if id.Embedded {
		_ = s.embedded.Hold(s.planNow(s.sets[id.List], r.now), id.Tag, r.now.UnixMicros, id.Slots)
		return
	}
	for len(due) > 0 {
		n := min(len(due), maxRenewed)
		s.renewed = s.renewed[:0]
		for _, slot := range due[:n] {
			s.renewed = append(s.renewed, slot.Nonce, slot.Slots)
		}
		s.conn.Renew(s.scripts[id.List], id.Tag, s.renewed, r.now.SteadyMicros)
		due = due[n:]
	}
}
