package redis

import (
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// Probes of a stream that end without an answer, or too late.

// If failures open the breaker, what was kept waits for no other stream.
func TestBreakerEndsStreamProbes(t *testing.T) {
	t.Parallel()
	options := testOptions()
	options.Breaker.Failures = 2
	r := lostRig(t, options, 1)
	w := r.request("b").flush()
	r.closeStream()
	w.want("unreachable")
	r.wantState(Open)
	testenv.Same(t, "the number of streams", r.streams, 2)
}

// Envoy may have no endpoint any more: what was kept fails at once.
func TestNoEndpointLeft(t *testing.T) {
	t.Parallel()
	r := lostRig(t, testOptions(), 1)
	w := r.request("b").flush()
	r.openErr = errHost
	r.closeStream()
	w.want("unreachable")
	testenv.Same(t, "the number of streams", r.streams, 3)
	r.request("c").flush().wantRefused(Unreachable)
	testenv.Same(t, "the number of streams after another request", r.streams, 3)
}

// Nothing can be sent on the streams that follow.
func TestStreamProbesCannotBeSent(t *testing.T) {
	t.Parallel()
	r := lostRig(t, testOptions(), 1)
	w := r.request("b").flush()
	r.sendErr = errHost
	r.closeStream()
	w.want("unreachable")
	r.wantStreams("after the last try", false, false)
	testenv.Same(t, "the number of streams", r.streams, 1+maxTries)
}

// What asks how the server is, is kept, too. It is no request, so that nothing counts as a failure.
func TestStatsAreKept(t *testing.T) {
	t.Parallel()
	r := lostRig(t, testOptions(), 1)
	r.asks = true
	r.conn.Refund(Charge{Script: r.script, Demand: of("c"), Cost: 1, AtMicros: 1}, r.now)
	r.pass(2 * minTickMicros)
	testenv.Same(t, "what was sent", r.names(), "EVAL")
	r.closeStream()
	testenv.Same(t, "failures in a row", r.conn.link.health.breaker.row, 1)
	r.prove()
	testenv.Same(t, "what is sent then", r.names(), "INFO INFO INFO EVAL")
}

// A stream that a background command has opened hangs. A check that has come last goes to the next.
func TestStalledStreamProbe(t *testing.T) {
	t.Parallel()
	r := lostRig(t, testOptions(), 1)
	r.conn.Refund(Charge{Script: r.script, Demand: of("c"), Cost: 1, AtMicros: 1}, r.now)
	r.pass(minTickMicros)
	r.pass((stalledTimeouts*50 - 10) * ms)
	w := r.request("b").flush()
	r.pass(20 * ms)
	testenv.Same(t, "the number of streams", r.streams, 3)
	r.prove()
	r.allow(2)
	w.want("at 2")
}

// A stream that does not answer holds what was kept no longer than the timeout, and what has expired is
// not sent on another one.
func TestStreamProbeHangs(t *testing.T) {
	t.Parallel()
	r := lostRig(t, testOptions(), 1)
	w := r.request("b").flush()
	r.pass(50 * ms)
	w.want("expired")
	testenv.Same(t, "what was sent", len(r.commands), 1)
	late := r.request("c").flush()
	r.pass(30 * ms)
	r.closeStream()
	w.want("expired, unreachable")
	late.want("unreachable")
	testenv.Same(t, "the number of streams", r.streams, 2)
}

// An answer that comes after the timeout, as a Redis that is slow gives it, proves the stream.
func TestLateStreamProbe(t *testing.T) {
	t.Parallel()
	r := lostRig(t, testOptions(), 1)
	w := r.request("b").flush()
	r.pass(40 * ms)
	next := r.request("c").flush()
	r.pass(20 * ms)
	w.want("expired")
	r.prove()
	r.allow(2)
	r.allow(3)
	w.want("expired, at 2")
	next.want("at 3")
}
