package decide

import (
	"math"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/override"
	"github.com/sluiceproxy/sluice/plugin/text"
)

// Who answers in Redis' place: what the worker remembers of overrides, then the embedded store.

// fallBack asks the embedded store about those checks that Redis has not decided, in mode local.
func (s *Stores) fallBack(q *Question, fails func(*Check) bool, now Time) {
	for i := range q.Checks {
		if c := &q.Checks[i]; fails(c) {
			s.askFallback(c, q, now)
		}
	}
}

// askFallback asks the embedded store in Redis' place, by what the worker remembers of overrides.
func (s *Stores) askFallback(c *Check, q *Question, now Time) {
	if r, ok := s.overrides.remembered(&c.Ask, now); ok {
		c.ruled(FromFallback, &r, nil, 0)
		return
	}
	s.overrides.fit(q, c, now)                // Redis may have told more than the check knew
	q.sizes, c.Sizes = keep(q.sizes, c.Sizes) // what Redis was sent keeps its calendar windows
	s.calendars.fit(c.Limits, c.Sizes, now.UnixMicros)
	r, ok := s.embedded.decide(c, false, now)
	if ok {
		c.ruled(FromFallback, &r, c.Decisions, 0)
		s.slots.occupy(&c.charged.receipt, now.SteadyMicros)
	}
}

// remembered is the ruling on a check's identity, if the worker remembers that it is free or
// blocked. It counts where Redis does not decide.
func (o *overrides) remembered(a *Ask, now Time) (r algo.Ruling, ok bool) {
	if !a.Rule.Terms.Overrides {
		return r, false
	}
	k := o.lasting(a, now.SteadyMicros)
	if k == nil {
		return r, false
	}
	r.AtMicros, r.LeftMicros = now.UnixMicros, k.untilMicros-now.SteadyMicros
	if k.untilMicros == math.MaxInt64 {
		r.LeftMicros = algo.Never
	}
	switch override.Parse(text.View(k.value)).Kind {
	case override.Free:
		r.By, r.Allowed = algo.ByFree, true
	case override.Block:
		r.By = algo.ByBlock
	default:
		return r, false
	}
	return r, true
}
