package redis

import "github.com/sluiceproxy/sluice/algo"

// What the actions do with checks.

// decide brings a check its last call, or sends it again: a rejection that a refund
// should have come before, unless it has counted as a strike.
func (r *requests) decide(k *command, nowMicros int64) {
	r.link.observer.RoundTrip(nowMicros - k.sentMicros)
	reply := &r.replies.reply
	if !k.expired {
		r.link.health.breaker.succeed(k.tag, nowMicros)
		if k.overtook && !reply.Allowed && !k.script.strikes() {
			r.askAgain(k, accepted, nowMicros)
			return
		}
	}
	r.finish(k.question)
	k.waiter.Decided(k.index, reply, nowMicros)
}

// askAgain sends a check by its source. One that has expired has charged nothing, and no
// request needs its decision.
func (r *requests) askAgain(k *command, o outcome, nowMicros int64) {
	if k.expired {
		r.fail(k, Timeout, false, nowMicros)
		return
	}
	r.retries[retryOf[o]]++
	k.bySource, k.overtook = true, false
	r.link.pipe.addAgain(k)
}

// resize sends a check once more that was made for another time, or another factor, than
// Redis has, or fails it. It reports whether its Waiter knows other sizes: if not, the reply
// was nonsense.
func (r *requests) resize(k *command, nowMicros int64) (known bool) {
	reply := &r.replies.reply
	sizes := k.waiter.Resize(k.index, reply, nowMicros)
	text := k.resizedTooOften(reply.Factor)
	switch {
	case len(sizes) == 0:
		return false
	case k.expired: // nothing was charged, and no request needs the decision
		r.fail(k, Timeout, false, nowMicros)
	case text != "":
		r.link.health.complain("", []byte(text))
		r.fail(k, ErrorReply, false, nowMicros)
	default:
		r.retries[k.resize(sizes, reply.Factor)]++
		r.link.pipe.addAgain(k)
	}
	return true
}

// maxResizes is how often one check is asked again since an operator has changed the
// identity's factor meanwhile.
//
// Bound: factors of an override that one check is sent with. Beyond it, the check is undecided.
// Protects Redis from a factor that never rests.
const maxResizes = 3

// resizedTooOften returns the line to log if a check must not be sent with other sizes again, and
// "" if it may.
func (c *command) resizedTooOften(factor int64) string {
	switch {
	case factor == 0 && c.resized:
		return "Redis' clock jumped twice while one request was decided (check its hosts' clocks)"
	case factor != 0 && c.factors == maxResizes:
		return "the factor in an override changed on every attempt (check what writes it)"
	}
	return ""
}

// resize gives a check other sizes, and says why. A factor of 0 stands for another time.
func (c *command) resize(sizes []algo.Size, factor int64) Retry {
	c.overtook = false
	c.sizes = append(c.sizes[:0], sizes...)
	if factor == 0 {
		c.resized = true
		return OtherTime
	}
	c.check.factor = factor
	c.factors++
	return OtherFactor
}

// expire tells a check's Waiter once that the timeout is over. If the request was kept back, Redis
// had less time than the timeout, and the expiry does not count as a failure of Redis.
func (r *requests) expire(k *command, nowMicros int64) {
	if k.expired {
		return
	}
	k.expired = true
	cause, late := Timeout, k.keptMicros > 0 && r.link.pipe.waited(k, nowMicros) < r.link.options.TimeoutMicros
	if late {
		cause = Overload
	}
	r.undecided(k, cause, late, nowMicros)
	k.waiter.Expired(k.index, nowMicros)
}

// fail is the last call of a check that Redis does not decide. It reports whether the
// failure has been counted, now or, as counted says, before.
func (r *requests) fail(k *command, cause Cause, counted bool, nowMicros int64) bool {
	counted = r.undecided(k, cause, counted, nowMicros)
	r.finish(k.question)
	k.waiter.Failed(k.index, cause, nowMicros)
	return counted
}

// undecided notes that Redis has not decided a check. A request fails once. That counts
// as a failure of Redis', unless that was counted before.
func (r *requests) undecided(k *command, cause Cause, counted bool, nowMicros int64) bool {
	if !r.isNews(k.question) {
		return counted
	}
	h := &r.link.health
	h.breaker.failedTag = append(h.breaker.failedTag[:0], k.tag...)
	h.requestFailed(cause, nowMicros)
	if !counted {
		h.failed(cause, nowMicros)
	}
	return true
}
