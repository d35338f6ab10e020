package redis

import "github.com/sluiceproxy/sluice/plugin/metric"

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

// retryOf is how it is counted that a check is sent once more after an outcome.
var retryOf = [outcomes]metric.Event{
	accepted: metric.RetriedOvertaken, unknown: metric.RetriedUnknownScript, timeless: metric.RetriedNoTime,
}

// askAgain sends a check by its source. One that has expired has charged nothing, and no
// request needs its decision.
func (r *requests) askAgain(k *command, o outcome, nowMicros int64) {
	if k.expired {
		r.fail(k, Timeout, false, nowMicros)
		return
	}
	r.link.observer.Count(retryOf[o], 1)
	k.bySource, k.overtook = true, false
	r.link.pipe.addAgain(k)
}

// remake sends a check once more that was made for another time, or another override, than Redis
// has, or fails it. It reports whether its Waiter can make another: if not, the reply was
// nonsense.
func (r *requests) remake(k *command, nowMicros int64) (known bool) {
	reply := &r.replies.reply
	r.remade = Check{Script: k.script, Costs: k.check.costs, Sizes: k.sizes, Values: k.values, MadeFor: k.check.madeFor}
	done := k.waiter.Remake(k.index, reply, &r.remade, nowMicros)
	text := k.remadeTooOften(reply.OtherOverride)
	switch {
	case done == NoSense:
		return false
	case k.expired: // nothing was charged, and no request needs the decision
		r.fail(k, Timeout, false, nowMicros)
	case done == NotAgain:
		r.finish(k.question)
		k.waiter.Failed(k.index, NoCause, nowMicros)
	case text != "":
		r.link.health.complain("", []byte(text))
		// What an operator's tools write is no failure of Redis.
		r.fail(k, ErrorReply, reply.OtherOverride, nowMicros)
	default:
		r.link.observer.Count(k.remake(&r.remade, reply.OtherOverride), 1)
		r.link.pipe.addAgain(k)
	}
	return true
}

// remadeTooOften returns the line to log if a check must not be sent once more for this reason,
// and "" if it may.
func (c *command) remadeTooOften(otherOverride bool) string {
	switch {
	case !otherOverride && c.retimed:
		return "Redis' clock jumped twice while one request was decided (check its hosts' clocks)"
	case otherOverride && c.remade:
		return "an override changed twice while one request was decided (check what writes it)"
	}
	return ""
}

// remake makes c another check, for the same request, and says how that is counted.
func (c *command) remake(with *Check, otherOverride bool) metric.Event {
	c.overtook = false
	c.script = with.Script
	c.sizes = append(c.sizes[:0], with.Sizes...)
	c.values = append(c.values[:0], with.Values...)
	if !otherOverride {
		c.retimed = true
		return metric.RetriedOtherTime
	}
	c.check.costs = append(c.check.costs[:0], with.Costs...)
	c.check.madeFor = append(c.check.madeFor[:0], with.MadeFor...)
	c.slots = c.slots[:0]
	c.listSlots()
	c.remade, c.retimed = true, false // the calendar may be another
	return metric.RetriedOtherOverride
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
