package decide

import "github.com/sluiceproxy/sluice/plugin/metric"

// This file asks the embedded store.

// askEmbedded lets the embedded store decide the checks of a kind. A store that cannot
// leaves a check Undecided.
func (s *Stores) askEmbedded(q *Question, kind func(*Check) bool, source Source, now Time) {
	for i := range q.Checks {
		if c := &q.Checks[i]; kind(c) {
			s.decideEmbedded(c, source, now)
		}
	}
}

func (s *Stores) decideEmbedded(c *Check, source Source, now Time) {
	c.Status = Undecided
	c.Sizes, c.factor = c.own, 0 // what is set in Redis is in force there alone
	plan := s.planAt(c.Limits, c.Sizes, now.UnixMicros)
	if s.slots != nil {
		s.embedded.Holding(s.slots.Held(c.Limits.Index, c.Tag, true))
	}
	ruling, err := s.embedded.Decide(plan, c.Tag, now.UnixMicros, c.Costs, c.Decisions, source == FromEmbedded)
	if err != nil {
		return
	}
	c.answer(source, &ruling, c.Decisions)
	s.hold(c, now.SteadyMicros)
	if ruling.EarnedMicros > 0 {
		s.record.Count(metric.PenaltyEarned, 1)
	}
}
