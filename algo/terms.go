package algo

import (
	_ "embed"
	"math/bits"
	"strconv"
)

//go:embed override.lua
var overrideLua string

// Terms hold for a whole rule, in addition to its limits and whatever these say.
type Terms struct {
	// Overrides makes what an operator has set for an identity count: see
	// override.lua.
	Overrides bool
	// Penalty blocks an identity that the rule rejects too often; nil: none.
	Penalty *Penalty
}

// The suffixes that follow the hash tag in the keys of terms.
const (
	OverrideSuffix = ":override"
	PenaltySuffix  = ":penalty"
)

// NewPlanWithTerms is NewPlan for a rule with terms. A rule with terms needs no limits: it
// then admits every identity that the terms do not block.
//
// Only the scripts that decide obey the terms. Decide and Refund, and the scripts that refund,
// know the limits alone.
func NewPlanWithTerms(limits []Limit, terms Terms) (*Plan, error) {
	p := &Plan{slots: -1}
	if len(limits) > 0 || terms == (Terms{}) {
		if len(limits) == 0 || len(limits) > MaxLimits {
			return nil, invalid(len(limits), " limits in one rule (want 1 to ", MaxLimits, ")")
		}
	}
	for i := range limits {
		if err := limits[i].validate(); err != nil {
			return nil, err
		}
		if limits[i].LeaseMicros != 0 && len(limits) > 1 {
			return nil, invalid("batches of one limit of several (want them of a rule's only limit)")
		}
		for j := range limits[:i] {
			if limits[i].KeySuffix() == limits[j].KeySuffix() {
				return nil, invalid("two limits have the key ", strconv.Quote(limits[i].KeySuffix()),
					" (want different ones, as they would share a state)")
			}
		}
	}
	if of := terms.Penalty; of != nil {
		if !within(of.After, 1, MaxStrikes) || !within(of.WithinMicros, MinWindowMicros, MaxWindowMicros) {
			return nil, invalid("a penalty after ", of.After, " rejections within ", of.WithinMicros, " us is out of range")
		}
		if len(of.ForMicros) == 0 || len(of.ForMicros) > MaxBlocks {
			return nil, invalid(len(of.ForMicros), " blocks in a penalty (want 1 to ", MaxBlocks, ")")
		}
		for _, micros := range of.ForMicros {
			if !within(micros, MinWindowMicros, MaxWindowMicros) {
				return nil, invalid("a block of ", micros, " us is out of range")
			}
		}
	}
	p.terms, p.limits = terms, append([]Limit(nil), limits...)
	for i := range p.limits {
		p.limiters = append(p.limiters, newLimiter(&p.limits[i]))
		if p.limiters[i].nonce && p.slots < 0 {
			p.slots = i
		}
	}
	if err := p.findPair(); err != nil {
		return nil, err
	}
	if err := p.findOver(); err != nil {
		return nil, err
	}
	p.script = scriptOf(p.limiters, p.kind())
	p.refund = scriptOf(p.limiters, kind{refund: true})
	return p, nil
}

// Terms are the plan's.
func (p *Plan) Terms() Terms { return p.terms }

// TermSuffixes are the suffixes of the terms' keys, which a deciding script takes after those
// of the limits.
func (p *Plan) TermSuffixes() (suffixes []string) {
	if p.terms.Overrides {
		suffixes = append(suffixes, OverrideSuffix)
	}
	if p.terms.Penalty != nil {
		suffixes = append(suffixes, PenaltySuffix)
	}
	return suffixes
}

// NumTermArgs is how many arguments such a script wants after those of the limits: for
// a penalty its Args and what AppendStrikes appends. If there are overrides, and the call was
// made for one, its text is the last one.
func (p *Plan) NumTermArgs() int {
	if p.terms.Penalty != nil {
		return penaltyArgs
	}
	return 0
}

// kind is which script decides.
func (p *Plan) kind() kind {
	k := kind{overrides: p.terms.Overrides, penalty: p.terms.Penalty != nil}
	if p.own < len(p.limits) {
		k.own = p.own
	}
	return k
}

// NoFactor is the factor, in thousandths, of limits that are as configured.
const NoFactor = 1000

// MaxOverrideBytes bounds the text of an override. override.lua has the same number.
//
// Bound: bytes of an override. Beyond it, the override is ignored, with one log line. Protects
// memory, and the calls that carry it.
const MaxOverrideBytes = 1000

// MaxFactor is the largest factor, in thousandths; the smallest is 1.
//
// Bound: thousandths of an override's factor. Beyond it, the override is invalid, and the limits
// count as configured. Protects arithmetic.
const MaxFactor = 1_000_000

func times(units, factor int64) int64 {
	if units == 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(units), uint64(factor))
	if hi > 0 {
		return MaxUnits
	}
	return int64(min(max(lo/NoFactor, 1), MaxUnits))
}
