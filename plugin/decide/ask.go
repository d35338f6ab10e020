package decide

import (
	"slices"

	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// The layers are asked about a request, in order. This file and conclude.go alone know the order.

// layer is a layer that may answer a check at once.
type layer uint8

const (
	zeroLayer   layer = iota // a limit of 0, see zero.go
	onlyLayer                // the embedded store, where it is the only one: embedded.go
	leaseLayer               // units that this worker holds: leases.go
	memoryLayer              // rejections that it remembers: memory.go
)

// sources is who answers in each layer.
var sources = [...]Source{
	zeroLayer: FromLimit, onlyLayer: FromEmbedded, leaseLayer: FromLease, memoryLayer: FromMemory,
}

// orderOf is the order in which the layers are asked about a request that comes. Redis is
// asked behind them, and in mode local the embedded store behind that.
func orderOf(cfg *config.Config, rules *rule.Set) (order []layer) {
	order = append(order, zeroLayer)
	if cfg.Redis == nil {
		return append(order, onlyLayer)
	}
	if slices.ContainsFunc(rules.LimitSets, isLeased) {
		order = append(order, leaseLayer) // what was charged is spent first
	}
	return append(order, memoryLayer)
}

// Ask asks the layers that answer at once. It reports whether the request can be concluded;
// otherwise Redis is to be asked.
func (s *Stores) Ask(q *Question, now Time) (decided bool) {
	s.size(q, now)
	for _, l := range s.order {
		if s.ask(l, q, now) {
			return true
		}
	}
	return s.alone()
}

// fit gives a check the limits and sizes that an operator's override makes of those that came with
// the request, in the calendar windows around the time of the store that is asked.
func (s *Stores) fit(q *Question, c *Check, now Time) {
	s.overrides.fit(q, c, now)
	if c.Limits.Calendars != nil {
		s.calendars.fit(c.Limits, c.Sizes, s.remote.micros(now))
	}
}

// size fits all checks of a request.
func (s *Stores) size(q *Question, now Time) {
	for i := range q.Checks {
		s.fit(q, &q.Checks[i], now)
	}
}
