package redis

import (
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/metric"
)

// lostRig has just lost the stream on which so many requests were in flight.
func lostRig(t *testing.T, options Options, inFlight int) *rig {
	t.Helper()
	r := newRig(t, options)
	r.request("a").flush()
	r.allow(1)
	lost := make([]*client, inFlight)
	for i := range lost {
		lost[i] = r.request("a").flush()
	}
	r.closeStream()
	for _, w := range lost {
		w.want("connection_lost")
	}
	return r
}

// fails is whatever ends a stream that has answered nothing.
var fails = map[string]func(*rig){
	"closed":  (*rig).closeStream,
	"no RESP": func(r *rig) { r.receive("HTTP/1.1 400 Bad Request\r\n") },
	"closed while the next one is opened": func(r *rig) {
		r.closeInOpens = 1
		r.closeStream()
	},
	"closed while the next one is sent its probe": func(r *rig) {
		r.closeInSends = 1
		r.closeStream()
	},
}

// What was in flight on a lost stream fails, and nothing more: what comes later is kept until a stream
// has answered, whichever endpoints the streams in between lead to.
func TestOnlyWhatWasInFlightFails(t *testing.T) {
	t.Parallel()
	for name, fail := range fails {
		r := lostRig(t, testOptions(), 8)
		kept := []*client{r.request("b").flush(), r.request("c", "d").flush()}
		fail(r)
		kept = append(kept, r.request("e").flush())
		r.wantInFlight(3)
		testenv.Same(t, name+": whose hash slot is asked", r.commands[0][3], "rl:{a}:probe")
		for _, w := range kept {
			w.wantAll("waits")
		}
		testenv.Same(t, name+": reconnects before a stream has answered", r.reconnected, 0)
		r.prove()
		testenv.Same(t, name+": reconnects", r.reconnected, 1)
		testenv.Same(t, name+": commands once a stream has answered", len(r.commands), 4)
		for at := range int64(4) {
			r.allow(at + 2)
		}
		kept[0].want("at 2")
		kept[1].want("at 3", "at 4")
		kept[2].want("at 5")
		testenv.Same(t, name+": causes for which requests failed", len(r.failed), 1)
		testenv.Same(t, name+": requests that failed", r.failed[Lost], 8)
		r.wantState(Closed)
	}
}

// A probe that is refused is an answer: what was kept gets its own.
func TestStreamProbeRefused(t *testing.T) {
	t.Parallel()
	r := lostRig(t, testOptions(), 1)
	w := r.request("b").flush()
	r.answer("-LOADING Redis is loading the dataset in memory\r\n")
	w.wantAll("waits")
	r.answer("-LOADING Redis is loading the dataset in memory\r\n")
	w.want("error_reply")
	testenv.Same(t, "the number of streams", r.streams, 2)
}

// The next streams get the whole set-up, and the probe.
func TestStreamProbeLogsIn(t *testing.T) {
	t.Parallel()
	options := testOptions()
	options.Password, options.Database = "s3cr3t", 4
	r := newRig(t, options)
	r.request("a").flush()
	for range 2 {
		r.answer("+OK\r\n")
	}
	r.allow(1)
	r.closeStream()
	w := r.request("b").flush()
	r.closeStream()
	testenv.Same(t, "what the next stream is sent", r.names(), "AUTH SELECT EVAL")
	r.answer("+OK\r\n")
	r.answer("+OK\r\n")
	r.prove()
	r.allow(2)
	w.want("at 2")
}

// A stream that has answered part of its set-up and ends is no better than any other: what was kept
// fails, and what comes next is tried at once.
func TestLostInSetUp(t *testing.T) {
	t.Parallel()
	r := loggedInRig(t)
	r.closeStream()
	w := r.request("b").flush()
	r.answer("+OK\r\n")
	r.closeStream()
	w.want("connection_lost")
	testenv.Same(t, "the number of streams", r.streams, 2)
	r.request("c").flush().want("waits")
}

// Where no stream answers, what was kept fails together, after a few streams. What comes then fails at
// once, and the breaker opens no later than by requests that each had a stream.
func TestNoStreamAnswers(t *testing.T) {
	t.Parallel()
	r := lostRig(t, testOptions(), 1)
	w, other := r.request("b").flush(), r.request("c").flush()
	for range maxTries {
		w.want("waits")
		r.closeStream()
	}
	w.want("unreachable")
	other.want("unreachable")
	testenv.Same(t, "the number of streams", r.streams, 1+maxTries)
	testenv.Same(t, "failures in a row", r.conn.link.health.breaker.row, 1+maxTries)
	r.wantInFlight(0)
	r.request("d").flush().wantRefused(Unreachable)
	r.wantState(Open)
	testenv.Same(t, "the number of streams, then", r.streams, 1+maxTries)
}

// What is kept counts as pending.
func TestKeptChecksArePending(t *testing.T) {
	t.Parallel()
	options := testOptions()
	options.MaxPending = 3
	r := lostRig(t, options, 1)
	for range 3 {
		r.request("b").flush().want("waits")
	}
	r.request("c").flush().wantRefused(Overload)
	r.wantInFlight(3)
}

// While the breaker is open, a stream is asked the breaker's probe alone.
func TestProbeIsNoStreamProbe(t *testing.T) {
	t.Parallel()
	options := testOptions()
	options.Breaker.Failures = 1
	r := lostRig(t, options, 1)
	r.passPause()
	testenv.Same(t, "what the next stream is sent", r.names(), "EVAL")
	r.answer("+OK\r\n")
	r.wantState(Closed)
	w := r.request("b").flush()
	r.allow(2)
	w.want("at 2")
}

// A stream that is being probed when the breaker opens is not asked what the probe asks: it is
// replaced.
func TestProbeEndsStreamProbe(t *testing.T) {
	t.Parallel()
	options := testOptions()
	options.Breaker.Failures = 2
	options.TimeoutMicros = 1000 * ms
	r := lostRig(t, options, 1)
	w := r.request("b").flush()
	r.conn.link.health.failed(Timeout, r.now)
	r.passPause()
	w.want("unreachable")
	r.wantState(HalfOpen)
	testenv.Same(t, "the number of streams", r.streams, 3)
	r.answer("+OK\r\n")
	r.wantState(Closed)
}

// The first stream, one in place of one that rested, and one that is lost while idle before anything
// is asked need no probe of the stream, or cost nothing.
func TestNoStreamProbeInOrdinaryRunning(t *testing.T) {
	t.Parallel()
	r := newRig(t, testOptions())
	for at := range int64(3) {
		w := r.request("a").flush()
		r.allow(at + 1)
		w.want(heard{at: at + 1}.String())
		r.pass(restMicros)
	}
	r.request("a").flush()
	r.allow(9)
	r.closeStream()
	r.pass(10_000 * ms)
	testenv.Same(t, "the number of streams", r.streams, 4)
}

// Background commands wait in the outbox until a stream has answered: what no stream has brought is not lost, and
// is no failure.
func TestBackgroundCommandsAwaitStreamProbe(t *testing.T) {
	t.Parallel()
	for _, request := range []bool{false, true} {
		r := lostRig(t, testOptions(), 1)
		if request {
			r.request("b").flush()
		}
		r.conn.Refund(Charge{Script: r.script, Demand: of("c"), Cost: 1, AtMicros: 1}, r.now)
		for n := range maxTries {
			r.pass(minTickMicros)
			r.closeStream()
			testenv.Same(t, "that the next is opened at once", r.open, request && n < maxTries-1)
		}
		testenv.Same(t, "the number of streams", r.streams, 1+maxTries)
		testenv.Same(t, "refunds that were sent in vain", r.counted[metric.ChargeRefunded], 0)
		testenv.Same(t, "that a pause has begun", r.conn.link.stream.reopenMicros > r.now, true)
		r.pass(125 * ms)
		r.wantRefund("c", 1)
	}
}

// A refund follows what was kept, in the same callback.
func TestBackgroundCommandsFollowWhatWasKept(t *testing.T) {
	t.Parallel()
	r := lostRig(t, testOptions(), 1)
	w := r.request("b").flush()
	r.conn.Refund(Charge{Script: r.script, Demand: of("c"), Cost: 1, AtMicros: 1}, r.now)
	r.prove()
	r.allow(2)
	w.want("at 2")
	r.wantRefund("c", 1)
}

// A rotation goes on while a stream is lost: the candidate takes its place, and the stream that is being
// probed brings what was kept, itself or by the next.
func TestRotationDuringStreamProbe(t *testing.T) {
	t.Parallel()
	for _, ends := range []bool{false, true} {
		r := rotatingRig(t)
		r.grow()
		r.closeStream()
		w := r.request("b").flush()
		r.answerBeside("+OK\r\n") // takes the place
		next := r.request("c").flush()
		r.allow(6)
		next.want("at 6")
		if ends {
			r.closeBeside()
			w.want("waits")
		}
		r.answerBeside("+OK\r\n")
		r.answerBeside(decision(7, true))
		w.want("at 7")
		r.pass(20 * ms)
		r.wantStreams("once nothing is owed", true, false)
		r.wantNoComplaint("a rotation")
	}
}
