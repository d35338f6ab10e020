package algo

import "errors"

// Errors of ParseReply. They are values, so that no reply makes it allocate.
var (
	ErrReplyLength = errors.New("the script's reply has the wrong number of integers")
	ErrReplyRange  = errors.New("the script's reply has an integer that cannot be")
	// ErrOtherTime says that the call's calendar windows are not those of Redis'
	// time. Nothing was charged; the same call with others may be.
	ErrOtherTime = errors.New("the script was called for another time than Redis has")
)

// maxReplyMicros bounds the time in a reply: what Lua can count exactly.
//
// Bound: us of a reply. Beyond it, the reply is an error. Protects arithmetic.
const maxReplyMicros = 1 << 53

// maxWaitMicros bounds a limit's waits in a reply: the second of two windows, or
// of two capacities, has to pass, what waits in a queue, and some rounding. Units that are lent have
// to come back, which another Envoy may have lent for a window. Slots have one wait.
func (l *Limit) maxWaitMicros() int64 {
	if !l.Algorithm.HasWindow() {
		return slotRetryMicros
	}
	most := 3*min(l.RestoreMicros(), maxReplyMicros) + l.MaxDelayMicros
	if l.LeaseMicros > 0 {
		most += 4 * l.WindowMicros
	}
	return most
}

// ReplyLen is the number of integers in the reply of Script: the Redis time in
// microseconds, then for each limit the units remaining, reset_after, retry_after
// (0 allowed, Never) and reset_after without this charge in microseconds, for a
// Queue its delay, if only what is over a burst waits also how many units that is, and for
// calendar windows when the one decided in begins. Of slots it is the units remaining and
// retry_after alone.
//
// Of limits with Over there is nothing unless they were asked: then it is OwnReplyLen.
func (p *Plan) ReplyLen() int { return p.replyLen(len(p.limiters)) }

// OwnReplyLen is the length of a reply of the rule's own limits alone.
func (p *Plan) OwnReplyLen() int { return p.replyLen(p.own) }

func (p *Plan) replyLen(limits int) int {
	n := 1
	for i := range p.limiters[:limits] {
		n += len(p.limiters[i].reply)
	}
	return n
}

// replyField is one integer of a limit's part of a reply.
type replyField uint8

const (
	replyRemaining replyField = iota // Decision.Remaining
	replyReset                       // ResetAfterMicros
	replyRetry                       // RetryAfterMicros
	replyBefore                      // ResetBeforeMicros
	replyDelay                       // DelayMicros
	replyWaiting                     // WaitingUnits
	replyStart                       // BeginsMicros
	endOfReplyFields
)

// usualReply has the fields that most limits answer.
var usualReply = [...]replyField{replyRemaining, replyReset, replyRetry, replyBefore}

// replyNames are the fields' names in the scripts.
var replyNames = [endOfReplyFields]string{
	replyRemaining: "remaining", replyReset: "reset", replyRetry: "retry",
	replyBefore: "before", replyDelay: "delay", replyWaiting: "waiting",
	replyStart: "start",
}

// of is the field of d.
func (f replyField) of(d *Decision) *int64 {
	switch f {
	case replyRemaining:
		return &d.Remaining
	case replyReset:
		return &d.ResetAfterMicros
	case replyRetry:
		return &d.RetryAfterMicros
	case replyBefore:
		return &d.ResetBeforeMicros
	case replyDelay:
		return &d.DelayMicros
	case replyWaiting:
		return &d.WaitingUnits
	}
	return &d.BeginsMicros // replyStart
}

// AppendReply appends what the script answers of decisions that were made at a time:
// what ParseReply reads.
func (p *Plan) AppendReply(values []int64, nowMicros int64, decisions []Decision) []int64 {
	values = append(values, nowMicros)
	for i := range p.limiters {
		if i >= p.own && decisions[i].Hidden { // the others were not asked
			break
		}
		for _, field := range p.limiters[i].reply {
			values = append(values, *field.of(&decisions[i]))
		}
	}
	return values
}

// ParseReply reads the reply of Script into out, one element for each limit.
// atMicros is the Redis time of the decision, which a refund names. On an error
// out means nothing; with ErrOtherTime, of a reply that is the time alone, atMicros
// is Redis' time all the same.
func (p *Plan) ParseReply(values []int64, out []Decision) (atMicros int64, allowed bool, err error) {
	own := len(values) == p.OwnReplyLen()
	if len(values) != 1 && !own && len(values) != p.ReplyLen() || len(out) < len(p.limits) {
		return 0, false, ErrReplyLength
	}
	if !within(values[0], 0, maxReplyMicros) {
		return 0, false, ErrReplyRange
	}
	if len(values) == 1 {
		return values[0], false, ErrOtherTime
	}
	atMicros, allowed = values[0], true
	values = values[1:]
	asked := len(p.limits)
	if own {
		asked = p.own
	}
	p.hideOthers(out)
	for i := range p.limits[:asked] {
		if i == p.own { // the others are asked only where the rule's own limits reject
			if allowed {
				return 0, false, ErrReplyRange
			}
			allowed = true
		}
		l, d, fields := &p.limits[i], &out[i], p.limiters[i].reply
		*d = Decision{}
		for n, field := range fields {
			*field.of(d) = values[n]
		}
		d.Allowed = d.RetryAfterMicros == 0
		most := l.maxWaitMicros()
		longest := most // that a request may have to wait
		switch {
		case i == p.guarantee: // it waits until its pool has come out of debt
			longest = max(most, p.limits[p.pool].maxWaitMicros())
		case l.CalendarID != "":
			begins, ends := l.Bounds.window(d.BeginsMicros)
			if begins != d.BeginsMicros || ends == 0 {
				return 0, false, ErrReplyRange
			}
			d.EndsMicros, most, longest = ends, ends-begins, ends-begins
		}
		if !within(d.Remaining, 0, l.Room()) ||
			!within(d.ResetAfterMicros, 0, most) || !within(d.ResetBeforeMicros, 0, most) ||
			!within(d.RetryAfterMicros, Never, longest) ||
			!within(d.DelayMicros, 0, l.MaxDelayMicros) || !within(d.WaitingUnits, 0, l.Capacity()) {
			return 0, false, ErrReplyRange
		}
		allowed = allowed && d.Allowed
		values = values[len(fields):]
	}
	if p.guarantee == noLimit {
		return atMicros, allowed, nil
	}
	allowed = true
	for i := range p.limits {
		allowed = allowed && p.allows(i, out)
	}
	p.Resolve(out)
	return atMicros, allowed, nil
}

func within(v, low, high int64) bool { return low <= v && v <= high }
