package redis

import (
	"github.com/sluiceproxy/sluice/plugin/metric"
	"github.com/sluiceproxy/sluice/plugin/must"
)

// outcome says how a command has ended.
type outcome uint8

const (
	accepted   outcome = iota // Redis has carried it out, and its reply makes sense
	refused                   // an error reply
	unknown                   // NOSCRIPT: Redis has not kept the script
	timeless                  // Redis does not let scripts call TIME
	otherSizes                // the script was called for another time, or another override
	nonsense                  // a reply that the command does not have
	timedOut                  // no reply within the timeout; it may still come
	lost                      // the connection has ended before the reply came
	givenUp                   // it has waited in the outbox for too long

	outcomes
)

// causes is why an outcome leaves a request undecided. That of a lost command is why the
// connection has ended.
var causes = [outcomes]Cause{refused: ErrorReply, nonsense: Malformed, timedOut: Timeout}

// action is the consequence of an outcome.
type action uint8

const (
	impossible action = iota
	ignore            // nothing is to be done

	decide     // a check's Waiter hears the decision
	askAgain   // a check is sent by its source
	remake     // a check is sent as its Waiter makes it for what the reply says
	fail       // a check's Waiter hears that Redis will not decide
	failAndEnd // so it does, and the connection ends: no further reply can be trusted
	failFree   // so it does, and the slots that the check may have taken are given back
	expire     // a check's Waiter hears that the timeout is over

	sendAgain    // an errand is sent by its source, in front of what has overtaken it
	renewAgain   // so is a renewal, without the slots that were given back meanwhile
	free         // the slots are given back: they may have been already
	freeLater    // the slots are given back, in a moment
	countSent    // settlements are counted as sent
	countLost    // settlements are counted as lost
	countEnded   // slots that had ended by themselves are counted
	countRenewed // slots are counted as renewed

	giveUp       // nothing on this connection can succeed: it ends, and the breaker opens
	reopen       // the breaker opens for another pause
	reopenEnd    // so it does, and the connection ends
	reopenUnsure // so it does, and the connection ends if another one may do better
	reopenLeave  // so it does, and a reply that still comes means nothing
	closeBreaker // Redis decides again
	sendKept     // what was kept until the stream answers is sent

	noteServer  // the trial notes which server answers
	noteRole    // and whether it is a primary
	noteMemory  // how much memory the server uses, and may use, is noted
	noteStats   // and how many keys it has evicted
	noteKeys    // and how many it holds, which the Host is told with the rest
	noteRefusal // INFO is not asked again on this connection
	tryOK       // the trial has succeeded
	tryFail     // it has failed
	tryUnsure   // it has failed, and the connection ends if another one may do better
	tryEnd      // it has failed, and the connection ends
	tryLeave    // it has failed, and a reply that still comes means nothing

	actions
)

// shape is the form of a command's reply.
type shape uint8

const (
	anyReply     shape = iota
	simpleString       // as "+OK"
	integers           // a script's decision
)

// fate is the row of one kind: what it calls, and what follows from each outcome.
type fate struct {
	name  string
	form  form
	shape shape
	after [outcomes]action
}

// fates is all that can become of each command. What is not listed is impossible.
var fates = [kinds]fate{
	checking: {name: "check", form: checkForm, shape: integers, after: [outcomes]action{
		accepted: decide, refused: fail, unknown: askAgain, timeless: askAgain, otherSizes: remake,
		nonsense: failAndEnd, timedOut: expire, lost: failFree,
	}},
	refunding: {name: "refund", form: changeForm, after: [outcomes]action{
		accepted: ignore, refused: freeLater, unknown: sendAgain, timeless: sendAgain,
		timedOut: ignore, lost: free, givenUp: ignore,
	}},
	settling: {name: "settlement", form: changeForm, after: [outcomes]action{
		accepted: countSent, refused: countLost, unknown: sendAgain, timeless: sendAgain,
		timedOut: ignore, lost: countLost, givenUp: countLost,
	}},
	releasing: {name: "release", form: releaseForm, after: [outcomes]action{
		accepted: countEnded, refused: freeLater, unknown: sendAgain, timeless: sendAgain,
		timedOut: ignore, lost: free, givenUp: ignore,
	}},
	renewing: {name: "renewal", form: renewForm, after: [outcomes]action{
		accepted: countRenewed, refused: ignore, unknown: renewAgain, timeless: renewAgain,
		timedOut: ignore, lost: ignore, givenUp: ignore,
	}},
	loggingIn: {name: "AUTH", after: [outcomes]action{accepted: ignore, refused: giveUp, timedOut: ignore, lost: ignore}},
	selecting: {name: "SELECT", after: [outcomes]action{
		accepted: ignore, refused: giveUp,
		timedOut: ignore, lost: ignore,
	}},
	probing: {name: "probe", shape: simpleString, after: [outcomes]action{
		accepted: closeBreaker, refused: reopenUnsure, nonsense: reopenEnd, timedOut: reopenLeave, lost: reopen,
	}},
	auditioning: {
		name:  "audition",
		after: [outcomes]action{accepted: sendKept, refused: sendKept, timedOut: ignore, lost: ignore},
	},
	askingServer: asking("INFO server", noteServer),
	askingRole:   asking("INFO replication", noteRole),
	askingMemory: asking("INFO memory", noteMemory),
	askingStats:  asking("INFO stats", noteStats),
	askingKeys:   asking("INFO keyspace", noteKeys),
	trying: {name: "trial", shape: simpleString, after: [outcomes]action{
		accepted: tryOK, refused: tryUnsure, nonsense: tryEnd, timedOut: tryLeave, lost: tryFail,
	}},
	abandoned: {
		name:  "abandoned",
		after: [outcomes]action{accepted: ignore, refused: ignore, timedOut: ignore, lost: ignore},
	},
}

// asking is the row of a command that asks how the server is.
func asking(name string, note action) fate {
	return fate{name: name, after: [outcomes]action{
		accepted: note, refused: noteRefusal, timedOut: ignore, lost: ignore,
	}}
}

// end is how a command ended, and why its request, if it has one, is left undecided. The
// reply, if there was one, is link.reply.
type end struct {
	outcome outcome
	cause   Cause
}

// act does what the table of fates says follows from the end of a command.
func (l *link) act(k *command, e end, nowMicros int64) {
	must.Hold(fates[k.kind].after[e.outcome] != impossible, "a command ends as the table of fates says")
	if e.outcome == timeless {
		l.withoutTime(k)
	}
	switch a := fates[k.kind].after[e.outcome]; a {
	case decide:
		l.requests.decide(k, nowMicros)
	case askAgain:
		l.requests.askAgain(k, e.outcome, nowMicros)
	case remake:
		if !l.requests.remake(k, nowMicros) {
			l.act(k, end{outcome: nonsense, cause: Malformed}, nowMicros)
		}
	case fail:
		l.health.complain("", l.reply.Bytes)
		l.requests.fail(k, e.cause, false, nowMicros)
		l.replaceIfUseless(nowMicros)
	case failAndEnd: // nothing tells which command this answers
		counted := l.requests.fail(k, e.cause, false, nowMicros)
		l.hangUp(ended{e.cause, counted}, nowMicros)
	case failFree:
		l.outbox.free(k, true)
		l.stream.ended.counted = l.requests.fail(k, e.cause, l.stream.ended.counted, nowMicros)
	case expire:
		l.requests.expire(k, nowMicros)
	case sendAgain, renewAgain, free, freeLater, countSent, countLost, countEnded, countRenewed:
		l.outbox.act(a, k)
	case noteServer, noteRole, tryOK, tryFail, tryUnsure, tryEnd, tryLeave:
		l.actOnTrial(k, e, nowMicros)
	case noteMemory, noteStats, noteKeys, noteRefusal:
		l.actOnVitals(k, e, nowMicros)
	default:
		l.actOnServer(k, e, nowMicros)
	}
}

// actOnServer does what follows from the end of a command that is about the server.
func (l *link) actOnServer(k *command, e end, nowMicros int64) {
	h := &l.health
	switch a := fates[k.kind].after[e.outcome]; a {
	case giveUp:
		h.complain(fates[k.kind].name, l.reply.Bytes)
		if h.breaker.state == Closed {
			h.open(e.cause, nowMicros)
		}
		l.hangUp(ended{e.cause, true}, nowMicros)
	case closeBreaker:
		h.close()
	case sendKept:
		l.stream.unproven = false // what was kept leaves at the end of the callback
	case reopenUnsure:
		h.complain("", l.reply.Bytes)
		h.open(e.cause, nowMicros)
		if connectionUseless(l.reply.Bytes) {
			l.hangUp(ended{e.cause, true}, nowMicros)
		}
	case reopenLeave:
		k.kind = abandoned
		h.open(e.cause, nowMicros)
	case reopen:
		h.open(e.cause, nowMicros)
	case reopenEnd:
		h.open(e.cause, nowMicros)
		l.hangUp(ended{e.cause, true}, nowMicros)
	}
}

// actOnTrial does what follows from the end of a command of the trial.
func (l *link) actOnTrial(k *command, e end, nowMicros int64) {
	t := &l.trial
	switch fates[k.kind].after[e.outcome] {
	case noteServer:
		t.noteServer(l.reply)
	case noteRole:
		t.noteRole(l.reply)
	case tryOK:
		t.succeed(&l.health, l.options.Overrides, l.vitals.policy)
		l.askVitals(nowMicros)
	case tryFail:
		t.fail(&l.health, e.cause, l.stream.heard)
	case tryUnsure:
		l.health.complain("", l.reply.Bytes)
		t.fail(&l.health, e.cause, l.stream.heard)
		l.replaceIfUseless(nowMicros)
	case tryEnd:
		t.fail(&l.health, e.cause, l.stream.heard)
		l.hangUp(ended{e.cause, true}, nowMicros)
	case tryLeave:
		k.kind = abandoned
		t.fail(&l.health, e.cause, l.stream.heard)
	}
}

// withoutTime has a command, and all that follow, tell the time without TIME.
func (l *link) withoutTime(k *command) {
	if !l.pipe.byKey {
		l.pipe.byKey = true
		l.health.host.Info(l.health.name() + " does not let scripts call TIME: from now on they tell the time by a key's " +
			"expiry, to the millisecond")
	}
	k.byKey = true
}

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
