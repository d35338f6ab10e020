package redis

import "github.com/sluiceproxy/sluice/plugin/must"

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
