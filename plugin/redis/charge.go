package redis

import (
	"slices"

	"github.com/sluiceproxy/sluice/algo"
)

// Charge is what one check asks Redis to charge, and once decided, what it has
// charged.
//
// Add, Refund and Settle copy Tag, Costs, Sizes and Strikes.
type Charge struct {
	Script *Script
	Tag    []byte      // "<rule>|<identity>"
	Cost   int64       // of each limit, where Costs is empty
	Costs  []int64     // of the limits, in order; in a settlement what it gives back
	Sizes  []algo.Size // that came with the request; empty: as configured
	// Factor is the one that Sizes were made for, in thousandths; 0: none. Strikes are
	// rejections of the identity that a check reports, see algo.Penalty.
	Factor  int64
	Strikes []algo.Strikes
	// Deferred: a rejection does not count as a strike yet; the worker judges it first.
	Deferred bool
	Nonce    int64 // set by Add
	AtMicros int64 // Redis' time of the charge; 0: nothing was charged
	// Further are settlements of the same identity that leave with this one: of each what
	// it gives back of every limit, then the time of its charge. Settle fills it.
	Further []int64
}

// Reply is Redis' answer to one check. Its decisions are good during the call
// only.
type Reply struct {
	algo.Ruling                 // AtMicros is Redis' time
	Decisions   []algo.Decision // of the limits, where they have decided
}

// isNothing reports whether there is nothing to give back, or to charge on top.
func (a *Charge) isNothing() bool {
	if a.AtMicros == 0 {
		return true
	}
	if len(a.Costs) > 0 {
		return slices.Max(a.Costs) == 0 && slices.Min(a.Costs) == 0
	}
	return a.Cost == 0
}

// costOf is the cost of a limit.
func (a *Charge) costOf(limit int) int64 {
	if len(a.Costs) > 0 {
		return a.Costs[limit]
	}
	return a.Cost
}

// multiplied reports whether the sizes were made for a factor.
func (a *Charge) multiplied() bool { return a.Factor != 0 && a.Factor != algo.NoFactor }

// keep makes a the charge c, with copies of what may change, in the memory that a
// has.
func (a *Charge) keep(c Charge) {
	c.Tag = append(a.Tag[:0], c.Tag...)
	c.Costs = append(a.Costs[:0], c.Costs...)
	c.Sizes = append(a.Sizes[:0], c.Sizes...)
	c.Strikes = append(a.Strikes[:0], c.Strikes...)
	c.Further = append(a.Further[:0], c.Further...)
	*a = c
}

// settlements is how many settlements leave with a settlement, itself included.
func (a *Charge) settlements() int64 { return int64(1 + len(a.Further)/(len(a.Script.suffixes)+1)) }

// join adds the settlement b to a, if one call can make both. It reports whether it has.
func (a *Charge) join(b *Charge) bool {
	if a.Script.slots >= 0 || !a.sameKeys(b) || a.settlements() == maxTogether || !slices.Equal(a.Sizes, b.Sizes) {
		return false
	}
	for i := range a.Script.suffixes {
		a.Further = append(a.Further, b.costOf(i))
	}
	a.Further = append(a.Further, b.AtMicros)
	return true
}

// maxTogether is the most settlements of one call, so that none holds Redis up.
const maxTogether = 16

// sameKeys reports whether two charges are for one identity of one rule.
func (a *Charge) sameKeys(b *Charge) bool {
	return a.Script == b.Script && string(a.Tag) == string(b.Tag)
}
