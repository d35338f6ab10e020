package redis

import (
	"slices"

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

// end is how a command has ended. The reply, if there was one, is link.reply.
type end struct {
	outcome   outcome
	cause     Cause // why its request, if it has one, is left undecided
	nowMicros int64
}

// action is what follows from an outcome.
type action struct {
	name string // in docs/internals.md
	do   func(*link, *command, end)
}

// shape is the form of a command's reply.
type shape uint8

const (
	anyReply     shape = iota
	simpleString       // as "+OK"
	integers           // a script's decision
)

// row is one kind of command: what it calls, and what follows from each outcome.
type row struct {
	name  string
	form  form
	shape shape
	after [outcomes]*action // nil: it cannot end so
}

// table has a row for each kind of command. It is filled at start because the actions refer to it.
var table [kinds]row

func init() {
	table = [kinds]row{
		checking: {name: "check", form: checkForm, shape: integers, after: [outcomes]*action{
			accepted: decide, refused: fail, unknown: askAgain, timeless: askAgain, otherSizes: remake,
			nonsense: failAndEnd, timedOut: expire, lost: failFree,
		}},
		refunding: {name: "refund", form: changeForm, after: [outcomes]*action{
			accepted: ignore, refused: freeLater, unknown: sendAgain, timeless: sendAgain,
			timedOut: ignore, lost: free, givenUp: ignore,
		}},
		settling: {name: "settlement", form: changeForm, after: [outcomes]*action{
			accepted: countSent, refused: countLost, unknown: sendAgain, timeless: sendAgain,
			timedOut: ignore, lost: countLost, givenUp: countLost,
		}},
		releasing: {name: "release", form: releaseForm, after: [outcomes]*action{
			accepted: countEnded, refused: freeLater, unknown: sendAgain, timeless: sendAgain,
			timedOut: ignore, lost: free, givenUp: ignore,
		}},
		renewing: {name: "renewal", form: renewForm, after: [outcomes]*action{
			accepted: countRenewed, refused: ignore, unknown: renewAgain, timeless: renewAgain,
			timedOut: ignore, lost: ignore, givenUp: ignore,
		}},
		loggingIn: {name: "AUTH", after: aside(ignore, giveUp)},
		selecting: {name: "SELECT", after: aside(ignore, giveUp)},
		probing: {name: "probe", shape: simpleString, after: [outcomes]*action{
			accepted: closeBreaker, refused: reopenUnsure, nonsense: reopenEnd, timedOut: reopenLeave, lost: reopen,
		}},
		probingStream: {name: "stream probe", after: aside(sendKept, sendKept)},
		askingServer:  {name: "INFO server", after: aside(noteServer, noteRefusal)},
		askingRole:    {name: "INFO replication", after: aside(noteRole, noteRefusal)},
		askingMemory:  {name: "INFO memory", after: aside(noteMemory, noteRefusal)},
		askingStats:   {name: "INFO stats", after: aside(noteEvicted, noteRefusal)},
		askingKeys:    {name: "INFO keyspace", after: aside(reportStats, noteRefusal)},
		startupProbing: {name: "startup check", shape: simpleString, after: [outcomes]*action{
			accepted: startOK, refused: startUnsure, nonsense: startEnd, timedOut: startLeave, lost: startFailed,
		}},
		abandoned: {name: "abandoned", after: aside(ignore, ignore)},
	}
}

// aside is the row of a command that nothing waits for, with the actions for a reply and for a refusal.
func aside(replied, denied *action) [outcomes]*action {
	return [outcomes]*action{accepted: replied, refused: denied, timedOut: ignore, lost: ignore}
}

func (l *link) act(k *command, e end) {
	a := table[k.kind].after[e.outcome]
	must.Hold(a != nil, "a command ends as the table says")
	a.do(l, k, e)
}

var ignore = &action{".", func(*link, *command, end) {}}

// What follows for checks.
var (
	// decide tells the Waiter the decision, or sends the check again: a rejection that a refund should
	// have come before, unless it has counted as a strike.
	decide = &action{"decide", func(l *link, k *command, e end) {
		l.observer.RoundTrip(e.nowMicros - k.sentMicros)
		reply := &l.requests.replies.reply
		if !k.expired {
			// It ends a row of failures. Only checks make the pauses short again, not a probe: where probes
			// succeed but requests do not, the breaker would open and close at the fastest pace for ever.
			b, d := &l.health.breaker, &l.health.breaker.decided
			d.advance(e.nowMicros)
			d.counts[d.tenth%int64(len(d.counts))]++
			if b.state == Closed {
				b.row, b.silent = 0, 0
				b.pauses.reset()
				b.decidedTag = append(b.decidedTag[:0], k.Tag...)
			}
			if k.overtook && !reply.Allowed && k.script.plan.Terms().Penalty == nil {
				l.askAgain(k, e)
				return
			}
		}
		l.requests.finish(k.question)
		k.waiter.Decided(k.index, reply, e.nowMicros)
	}}
	askAgain = &action{"ask again", (*link).askAgain}
	// remake sends a check once more that was made for another time, or another override, than Redis
	// has, or fails it. If its Waiter cannot make another, the reply was nonsense.
	remake = &action{"remake", func(l *link, k *command, e end) {
		r := l.requests
		reply, with := &r.replies.reply, &r.remade
		other := reply.OtherOverride
		*with = Check{Script: k.script, Demand: k.Demand, MadeFor: k.madeFor}
		done := k.waiter.Remake(k.index, reply, with, e.nowMicros)
		switch {
		case done == NoSense:
			e.cause = Malformed
			failAndEnd.do(l, k, e)
		case k.expired: // nothing was charged, and no request needs the decision
			e.cause = Timeout
			l.fail(k, e, false)
		case done == NotAgain:
			r.finish(k.question)
			k.waiter.Failed(k.index, NoCause, e.nowMicros)
		case !other && k.retimed:
			l.health.complain("", []byte("Redis' clock jumped twice while one request was decided (check its hosts' clocks)"))
			e.cause = ErrorReply
			l.fail(k, e, false)
		case other && k.remade:
			l.health.complain("", []byte("an override changed twice while one request was decided (check what writes it)"))
			e.cause = ErrorReply
			l.fail(k, e, true) // what an operator's tools write is no failure of Redis
		default:
			k.overtook, k.script = false, with.Script
			k.Sizes = append(k.Sizes[:0], with.Sizes...)
			k.Values = append(k.Values[:0], with.Values...)
			counted := metric.RetriedOtherTime
			if other {
				counted = metric.RetriedOtherOverride
				k.Costs = append(k.Costs[:0], with.Costs...)
				k.madeFor = append(k.madeFor[:0], with.MadeFor...)
				k.slots = k.script.appendHeld(k.slots[:0], k.nonce, k.Costs)
				k.remade = true
			}
			k.retimed = !other // the calendar of another override may be another
			l.observer.Count(counted, 1)
			l.pipe.addAgain(k)
		}
	}}
	// expire tells the Waiter once that the timeout is over. If the request was kept back, Redis had less
	// time than the timeout, and the expiry does not count as a failure of Redis.
	expire = &action{"expire", func(l *link, k *command, e end) {
		if k.expired {
			return
		}
		k.expired = true
		late := k.keptMicros > 0 && l.pipe.waited(k, e.nowMicros) < l.options.TimeoutMicros
		if late {
			e.cause = Overload
		}
		l.undecided(k, e, late)
		k.waiter.Expired(k.index, e.nowMicros)
	}}
	fail = &action{"fail", func(l *link, k *command, e end) {
		l.health.complain("", l.reply.Bytes)
		l.fail(k, e, false)
		l.replaceIfUseless(e.nowMicros)
	}}
	// failAndEnd also ends the connection: nothing tells which command the bytes answer.
	failAndEnd = &action{"fail, hang up", func(l *link, k *command, e end) {
		counted := l.fail(k, e, false)
		l.hangUp(ended{e.cause, counted}, e.nowMicros)
	}}
	// failFree also gives back the slots that the check may have taken.
	failFree = &action{"fail, free slots", func(l *link, k *command, e end) {
		l.outbox.free(k, true)
		l.stream.ended.counted = l.fail(k, e, l.stream.ended.counted)
	}}
)

// What follows for background commands.
var (
	sendAgain = &action{"send again", func(l *link, k *command, _ end) { l.pipe.sendAgain(k) }}
	// renewAgain leaves out the slots that commands behind it give back: no later command would give them
	// back another time.
	renewAgain = &action{"renew again", func(l *link, k *command, _ end) {
		for i := l.pipe.commands.first; i < l.pipe.commands.next; i++ {
			behind := l.pipe.commands.at(i)
			for j := 0; behind.same(k) && j < len(behind.slots); j++ {
				freed := func(held Slots) bool { return held.Nonce == behind.slots[j].Nonce }
				k.slots = slices.DeleteFunc(k.slots, freed)
			}
		}
		if len(k.slots) > 0 {
			l.pipe.sendAgain(k)
		}
	}}
	free      = &action{"free slots", func(l *link, k *command, _ end) { l.outbox.free(k, true) }}
	freeLater = &action{"free slots later", func(l *link, k *command, _ end) {
		l.outbox.queues[releasing].resumeMicros = k.sentMicros + refusedMicros
		l.outbox.free(k, k.blind)
	}}
	countSent = &action{"count as sent", func(l *link, k *command, _ end) {
		l.outbox.settled(k.size(), metric.SettlementSent)
	}}
	countLost = &action{"count as lost", func(l *link, k *command, _ end) {
		l.outbox.settled(k.size(), metric.SettlementLost)
	}}
	countEnded = &action{"count ended", func(l *link, k *command, _ end) {
		if !k.blind {
			l.observer.Count(metric.SlotsExpired, l.reply.Int)
		}
	}}
	countRenewed = &action{"count renewed", func(l *link, k *command, _ end) {
		l.observer.Count(metric.SlotsRenewed, k.size())
	}}
)

// What follows for the connection and the breaker.
var (
	// giveUp: nothing on this connection can succeed.
	giveUp = &action{"hang up, open", func(l *link, k *command, e end) {
		h := &l.health
		h.complain(table[k.kind].name, l.reply.Bytes)
		if h.breaker.state == Closed {
			h.open(e.cause, e.nowMicros)
		}
		l.hangUp(ended{e.cause, true}, e.nowMicros)
	}}
	sendKept     = &action{"send the kept", func(l *link, _ *command, _ end) { l.stream.unproven = false }}
	closeBreaker = &action{"close", func(l *link, _ *command, _ end) {
		h := &l.health
		b := &h.breaker
		b.state, b.row, b.silent, b.probes = Closed, 0, 0, 0
		h.reported = ""
		h.observer.BreakerChanged(Closed)
		h.host.Info("redis is back: it decides again")
	}}
	reopen    = &action{"open", func(l *link, _ *command, e end) { l.health.open(e.cause, e.nowMicros) }}
	reopenEnd = &action{"open, hang up", func(l *link, _ *command, e end) {
		l.health.open(e.cause, e.nowMicros)
		l.hangUp(ended{e.cause, true}, e.nowMicros)
	}}
	reopenUnsure = &action{"open, hang up if wrong", func(l *link, _ *command, e end) {
		l.health.complain("", l.reply.Bytes)
		l.health.open(e.cause, e.nowMicros)
		if connectionUseless(l.reply.Bytes) {
			l.hangUp(ended{e.cause, true}, e.nowMicros)
		}
	}}
	reopenLeave = &action{"open, abandon", func(l *link, k *command, e end) {
		k.kind = abandoned
		l.health.open(e.cause, e.nowMicros)
	}}
)

// retryOf is how it is counted that a check is sent once more after an outcome.
var retryOf = [outcomes]metric.Event{
	accepted: metric.RetriedOvertaken, unknown: metric.RetriedUnknownScript, timeless: metric.RetriedNoTime,
}

// askAgain sends a check by its source. One that has expired has charged nothing, and no
// request needs its decision.
func (l *link) askAgain(k *command, e end) {
	if k.expired {
		e.cause = Timeout
		l.fail(k, e, false)
		return
	}
	l.observer.Count(retryOf[e.outcome], 1)
	k.bySource, k.overtook = true, false
	l.pipe.addAgain(k)
}

// fail is the last call of a check that Redis does not decide. It reports whether the
// failure has been counted, now or, as counted says, before.
func (l *link) fail(k *command, e end, counted bool) bool {
	counted = l.undecided(k, e, counted)
	l.requests.finish(k.question)
	k.waiter.Failed(k.index, e.cause, e.nowMicros)
	return counted
}

// undecided notes that Redis has not decided a check. A request fails once. That counts
// as a failure of Redis', unless that was counted before.
func (l *link) undecided(k *command, e end, counted bool) bool {
	q := l.requests.asked.at(k.question)
	if q.failed {
		return counted
	}
	q.failed = true
	h := &l.health
	h.breaker.failedTag = append(h.breaker.failedTag[:0], k.Tag...)
	h.requestFailed(e.cause, e.nowMicros)
	if !counted {
		h.failed(e.cause, e.nowMicros)
	}
	return true
}
