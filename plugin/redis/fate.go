package redis

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
