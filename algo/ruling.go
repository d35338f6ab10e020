package algo

import "errors"

// ErrOtherOverride says that the arguments were made for another override than the one that
// the operator has set. Nothing was charged.
var ErrOtherOverride = errors.New("the arguments were made for another override")

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

// Ruling is a rule's answer to one request.
type Ruling struct {
	AtMicros int64 // the store's time of the decision, which a refund names
	Allowed  bool
	Over     bool // the rule's own limits reject, and those with Over have paid
	By       By   // if not ByLimits, nothing was charged, and there are no decisions
	// LeftMicros is how long a block still lasts, or that the identity is free or, where the
	// error is ErrOtherOverride, has an override; Never if that has no end.
	LeftMicros int64
	// EarnedMicros is the length of the block that this rejection has earned; 0 for none.
	EarnedMicros int64
	// Ignored reports whether the operator has set a value that cannot be an override.
	Ignored bool
}

// Marker is the second integer of a short reply, in which no limit has a part: the time,
// the marker and a value. It is below 0. After the time limits answer what remains of the
// first of them, which never is, so neither form can be taken for the other, whatever the
// limits and the terms are. MarkOverride alone is followed by a text: the override that is in
// force, empty for none.
type Marker int64

// The markers. override.lua, penalty.lua and replyOfTerms write them. None is used again
// with another meaning: -5 was a factor.
const (
	MarkFree      Marker = -1 // value: how long that still lasts, us, or Never
	MarkBlock     Marker = -2 // value: how long the operator's block still lasts, us, or Never
	MarkPenalty   Marker = -3 // value: how long the penalty's block still lasts, us
	MarkUnlimited Marker = -4 // value: 1 if the operator has set an invalid override; else 0
	MarkOverride  Marker = -6 // value: how long the override still lasts, us, or Never
)

// shortLen is the number of integers in a short reply.
const shortLen = 3

// ParseRuling reads the integers of the reply of the script of any plan, with terms or without.
// Where the limits have decided it fills in out, as ParseReply does.
func (p *Plan) ParseRuling(values []int64, out []Decision) (r Ruling, err error) {
	if p.terms != (Terms{}) {
		if len(values) > 1 && values[1] < 0 {
			return p.parseShort(values)
		}
		if values, err = p.parseTerms(values, &r); err != nil {
			return Ruling{}, err
		}
	}
	r.AtMicros, r.Allowed, err = p.ParseReply(values, out)
	if err == nil {
		r.Over = r.Allowed && p.OthersPay(out)
		Earned(out, r.EarnedMicros)
	}
	return r, err
}

// parseShort reads a short reply, if it is one that the plan's script can give.
func (p *Plan) parseShort(values []int64) (Ruling, error) {
	if len(values) != shortLen {
		return Ruling{}, ErrReplyLength
	}
	at, mark, value := values[0], Marker(values[1]), values[2]
	r, most := Ruling{AtMicros: at}, int64(maxReplyMicros)
	least, known := int64(0), p.terms.Overrides
	switch mark {
	case MarkFree:
		r.By, r.Allowed, r.LeftMicros, least = ByFree, true, value, Never
	case MarkBlock:
		r.By, r.LeftMicros, least = ByBlock, value, Never
	case MarkPenalty:
		r.By, r.LeftMicros, known = ByPenalty, value, p.terms.Penalty != nil
	case MarkUnlimited:
		r.Allowed, r.Ignored, most, known = true, value != 0, 1, len(p.limits) == 0
	case MarkOverride:
		r.LeftMicros, least = value, Never
	default:
		known = false
	}
	switch {
	case !known || !within(at, 0, maxReplyMicros) || !within(value, least, most):
		return Ruling{}, ErrReplyRange
	case mark == MarkOverride:
		return r, ErrOtherOverride
	}
	return r, nil
}

// parseTerms reads what stands after the limits' integers, and returns those. A reply
// that is the time alone has nothing of the kind.
func (p *Plan) parseTerms(values []int64, r *Ruling) (rest []int64, err error) {
	n := p.ReplyLen()
	if len(values) < n {
		n = p.OwnReplyLen()
	}
	if len(p.limits) == 0 || len(values) < n {
		if len(p.limits) > 0 && len(values) == 1 {
			return values, nil
		}
		return nil, ErrReplyLength
	}
	rest, values = values[:n], values[n:]
	if p.terms.Penalty != nil {
		if len(values) == 0 {
			return nil, ErrReplyLength
		}
		r.EarnedMicros, values = values[0], values[1:]
	}
	if p.terms.Overrides && len(values) > 0 {
		r.Ignored, values = values[0] != 0, values[1:]
	}
	switch {
	case len(values) > 0:
		return nil, ErrReplyLength
	case !within(r.EarnedMicros, 0, maxReplyMicros):
		return nil, ErrReplyRange
	}
	return rest, nil
}
