package algo

import "errors"

// ErrOtherFactor says that the arguments were made for another factor than the one
// that the operator has set, which is Ruling.Factor. Nothing was charged.
var ErrOtherFactor = errors.New("the arguments were made for another factor")

// By is who has decided: the limits, or what stands above them.
type By uint8

// Who decides.
const (
	// ByLimits: there is a decision for each limit; none where the rule has none.
	ByLimits By = iota
	// ByFree: the operator has freed the identity of the limits.
	ByFree
	// ByBlock: the operator has blocked it.
	ByBlock
	// ByPenalty: its penalty blocks it.
	ByPenalty
)

// Blocks reports whether the identity is blocked.
func (b By) Blocks() bool { return b == ByBlock || b == ByPenalty }

// Ruling is what a rule says of one request.
type Ruling struct {
	AtMicros int64 // the store's time of the decision, which a refund names
	Allowed  bool
	By       By // if not ByLimits, nothing was charged, and there are no decisions
	// LeftMicros is how long a block still lasts; Never if it has no end.
	LeftMicros int64
	// EarnedMicros is the length of the block that this rejection has earned; 0 for none.
	EarnedMicros int64
	// Ignored reports whether the operator has set a value that is not an override.
	Ignored bool
	// Factor is the one to ask with, in thousandths, where the error is
	// ErrOtherFactor.
	Factor int64
}

// The second integer of a reply of three.
const (
	replyFree = iota
	replyBlock
	replyPenalty
	replyUnlimited
)

// ParseRuling reads the reply of the script of any plan, of one with terms, too. out
// is filled in as ParseReply does where the limits have decided.
func (p *Plan) ParseRuling(values []int64, out []Decision) (r Ruling, err error) {
	switch n := len(values); {
	case p.terms == (Terms{}) || n == 0 || n == 1 && len(p.limits) > 0:
	case !within(values[0], 0, maxReplyMicros):
		return Ruling{}, ErrReplyRange
	case n == 2:
		return p.parseFactor(values)
	case n == 3:
		return p.parseShort(values)
	case len(p.limits) == 0:
		return Ruling{}, ErrReplyLength
	default:
		values = p.parseTerms(values, &r)
		if !within(r.EarnedMicros, 0, maxReplyMicros) {
			return Ruling{}, ErrReplyRange
		}
	}
	r.AtMicros, r.Allowed, err = p.ParseReply(values, out)
	if err == nil {
		Earned(out, r.EarnedMicros)
	}
	return r, err
}

// parseFactor reads a reply that says that another factor is in force.
func (p *Plan) parseFactor(values []int64) (Ruling, error) {
	if !p.terms.Overrides || len(p.limits) == 0 {
		return Ruling{}, ErrReplyLength
	}
	if !within(values[1], 1, MaxFactor) {
		return Ruling{}, ErrReplyRange
	}
	return Ruling{AtMicros: values[0], Factor: values[1]}, ErrOtherFactor
}

// parseShort reads a reply that no limit has a part in.
func (p *Plan) parseShort(values []int64) (Ruling, error) {
	r := Ruling{AtMicros: values[0], LeftMicros: values[2]}
	switch values[1] {
	case replyFree:
		r.By, r.Allowed, r.LeftMicros = ByFree, true, 0
	case replyBlock:
		r.By = ByBlock
	case replyPenalty:
		r.By = ByPenalty
	case replyUnlimited:
		return Ruling{AtMicros: values[0], Allowed: true, Ignored: values[2] != 0}, nil
	default:
		return Ruling{}, ErrReplyRange
	}
	if !within(r.LeftMicros, Never, maxReplyMicros) {
		return Ruling{}, ErrReplyRange
	}
	return r, nil
}

// parseTerms reads what stands after the limits' integers, and returns those.
func (p *Plan) parseTerms(values []int64, r *Ruling) (rest []int64) {
	rest = values[:min(p.ReplyLen(), len(values))]
	values = values[len(rest):]
	if p.terms.Penalty != nil && len(values) > 0 {
		r.EarnedMicros, values = values[0], values[1:]
	} else if p.terms.Penalty != nil {
		return nil
	}
	if p.terms.Overrides && len(values) > 0 {
		r.Ignored, values = values[0] != 0, values[1:]
	}
	if len(values) > 0 {
		return nil
	}
	return rest
}

// Earned makes the decisions that reject reject for as long as the block that they
// have earned lasts: whoever comes again when a limit would let it is rejected.
func Earned(out []Decision, micros int64) {
	for i := range out {
		if d := &out[i]; !d.Allowed && d.RetryAfterMicros != Never {
			d.RetryAfterMicros = max(d.RetryAfterMicros, micros)
		}
	}
}
