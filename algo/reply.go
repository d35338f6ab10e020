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
const maxReplyMicros = 1 << 53

// maxWaitMicros bounds a limit's waits in a reply: the second of two windows, or
// of two capacities, has to pass, and some rounding. Slots have one wait.
func (l *Limit) maxWaitMicros() int64 {
	if !l.Algorithm.HasWindow() {
		return slotRetryMicros
	}
	return 3 * min(l.RestoreMicros(), maxReplyMicros)
}

// ReplyLen is the number of integers in the reply of Script: the Redis time in
// microseconds, then for each limit the units remaining, reset_after, retry_after
// (0 allowed, Never) and reset_after without this charge in microseconds, for a
// Queue its delay, and for calendar windows when the one decided in begins. Of slots it
// is the units remaining and retry_after alone.
func (p *Plan) ReplyLen() int {
	n := 1
	for i := range p.limits {
		n += replyFields(&p.limits[i])
	}
	return n
}

func replyFields(l *Limit) int {
	switch {
	case l.Algorithm == Concurrency:
		return 2
	case l.Queue || l.CalendarID != "":
		return 5
	}
	return 4
}

// ParseReply reads the reply of Script into out, one element for each limit.
// atMicros is the Redis time of the decision, which a refund names. On an error
// out means nothing; with ErrOtherTime, of a reply that is the time alone, atMicros
// is Redis' time all the same.
func (p *Plan) ParseReply(values []int64, out []Decision) (atMicros int64, allowed bool, err error) {
	if len(values) != 1 && len(values) != p.ReplyLen() || len(out) < len(p.limits) {
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
	for i := range p.limits {
		l := &p.limits[i]
		if !parseDecision(l, values, &out[i]) {
			return 0, false, ErrReplyRange
		}
		allowed = allowed && out[i].Allowed
		values = values[replyFields(l):]
	}
	return atMicros, allowed, nil
}

// parseDecision reads one limit's part and reports whether it makes sense.
func parseDecision(l *Limit, values []int64, d *Decision) bool {
	if l.Algorithm == Concurrency {
		*d = Decision{Remaining: values[0], RetryAfterMicros: values[1], Allowed: values[1] == 0}
		return within(d.Remaining, 0, l.Capacity()) && within(d.RetryAfterMicros, Never, l.maxWaitMicros())
	}
	*d = Decision{
		Remaining:         values[0],
		ResetAfterMicros:  values[1],
		RetryAfterMicros:  values[2],
		Allowed:           values[2] == 0,
		ResetBeforeMicros: values[3],
	}
	if l.Queue {
		d.DelayMicros = values[4]
	}
	most := l.maxWaitMicros()
	if l.CalendarID != "" {
		d.BeginsMicros, d.EndsMicros = l.Bounds.window(values[4])
		if d.BeginsMicros != values[4] || d.EndsMicros == 0 {
			return false
		}
		most = d.EndsMicros - d.BeginsMicros
	}
	return within(d.Remaining, 0, l.Capacity()) &&
		within(d.ResetAfterMicros, 0, most) &&
		within(d.ResetBeforeMicros, 0, most) &&
		within(d.RetryAfterMicros, Never, most) &&
		within(d.DelayMicros, 0, l.MaxDelayMicros)
}

func within(v, low, high int64) bool { return low <= v && v <= high }
