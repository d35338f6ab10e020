package decide

import (
	"slices"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/must"
)

// How a store's ruling becomes the answer of a check, and its charge a receipt.

// ruled makes what a store says of the check its answer. decisions are those of the limits,
// if they have decided, and nonce is that of the charge, if it has one.
func (c *Check) ruled(source Source, r *algo.Ruling, decisions []algo.Decision, nonce int64) {
	must.Hold(!c.Decided() && source != FromNone, "a check is decided once")
	c.Source, c.AtMicros, c.By, c.EarnedMicros = source, r.AtMicros, r.By, r.EarnedMicros
	c.Status, c.Excused = Rejected, r.Over
	if r.Allowed {
		c.Status = Allowed
	}
	switch {
	case r.By.Blocks():
		c.block(r.LeftMicros)
	case r.By == algo.ByFree:
		for i := range c.Decisions {
			c.Decisions[i] = algo.Decision{Allowed: true}
		}
	default:
		copy(c.Decisions, decisions)
		if r.Allowed && source != FromMemory && c.Charges() { // memory charges nothing
			c.charged.receipt.fill(c.receiptOf(source, c.Sizes, c.Decisions, r.AtMicros, nonce))
		}
	}
	if c.Values != nil {
		c.hideAbsent()
	}
}

// block makes all limits of a check reject, for as long as a block lasts.
func (c *Check) block(leftMicros int64) {
	c.LeftMicros = leftMicros
	reset := max(leftMicros, 0)
	for i := range c.Decisions {
		bounds := algo.Bounds{}
		if c.Sizes != nil {
			bounds = c.Sizes[i].Bounds
		}
		c.Decisions[i] = algo.Decision{
			ResetAfterMicros: reset, ResetBeforeMicros: reset, RetryAfterMicros: leftMicros,
			BeginsMicros: bounds[1], EndsMicros: bounds[2],
		}
	}
}

// hideAbsent hides the limits that do not apply, as the request has no value for their "per".
func (c *Check) hideAbsent() {
	for i := range c.Decisions {
		if _, applies := c.Limits.ValuesOf(c.Values, i); !applies {
			c.Decisions[i] = algo.Decision{Allowed: true, Hidden: true}
		}
	}
}

// receiptOf is the receipt of a charge for the check, by what the limits have decided.
func (a *Ask) receiptOf(source Source, sizes []algo.Size, decisions []algo.Decision, atMicros, nonce int64) Receipt {
	costs := a.Costs
	if n := len(costs); a.Limits.Pays() {
		if costs = a.borrowing[:n]; a.Limits.Plan.OthersPay(decisions) {
			costs = a.borrowing[n:]
		}
	} else if a.borrowing != nil && a.borrows(decisions) {
		costs = a.borrowing
	}
	return Receipt{
		source: source, limits: a.Limits, tag: a.Tag, values: a.Values, costs: costs, sizes: sizes,
		atMicros: atMicros, nonce: nonce, lease: a.lease,
	}
}

// borrows reports whether the guarantee has charged nothing.
func (a *Ask) borrows(decisions []algo.Decision) bool {
	guarantee, _, ok := a.Limits.Plan.Guarantee()
	return ok && decisions[guarantee].Hidden
}

// fill makes r the receipt of a charge. What it was the receipt of has been given back.
func (r *Receipt) fill(with Receipt) {
	must.Hold(r.source == FromNone, "a receipt is not overwritten: its charge would be lost")
	*r = with
	if must.On {
		r.self = r
	}
}

// Charges reports whether the check takes anything of any limit.
//
//go:inline
func (a *Ask) Charges() bool { return charges(a.Costs) }

//go:inline
func charges(costs []int64) bool { return len(costs) > 0 && slices.Max(costs) > 0 }

// Decided reports whether a store decided the check.
//
//go:inline
func (s *Said) Decided() bool { return s.Status == Allowed || s.Status == Rejected }
