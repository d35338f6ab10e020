package redis

import "testing"

// The timeout of a request that was kept back has begun with its arrival. If it is over before
// Redis has had as long, that is no failure of Redis'.
func TestKeptBack(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name               string
		kept, expires      int64 // us
		timeouts, overload int
		state              BreakerState
	}{
		{"not at all", 0, 50 * ms, 1, 0, Open},
		{"for a moment", 10 * ms, 40 * ms, 0, 1, Closed},
		{"for some ticks", 30 * ms, 20 * ms, 0, 1, Closed},
		{"for the whole timeout", 50 * ms, 1, 0, 1, Closed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			options := testOptions()
			options.Breaker.Failures = 1
			r := newRig(t, options)
			w := r.request("a")
			r.conn.Begin(r.now)
			r.conn.KeptBack(tc.kept)
			w.nonces = append(w.nonces, r.conn.Add(w, 0, Check{Script: r.script, Demand: of("a"), Cost: 1}))
			r.conn.Flush(r.now)
			r.pass(tc.expires - 1)
			if w.checks[0].expired {
				t.Error("it has expired too early")
			}
			r.pass(1)
			if !w.checks[0].expired {
				t.Error("it has not expired")
			}
			if r.failed[Timeout] != tc.timeouts || r.failed[Overload] != tc.overload {
				t.Errorf("failed: %v", r.failed)
			}
			r.wantState(tc.state)
		})
	}
}

// Once Redis has answered all that was sent by some time, Asked shows it.
func TestAsked(t *testing.T) {
	t.Parallel()
	r := newRig(t, testOptions())
	for range 3 {
		r.request("a", "b").flush()
	}
	sent, _ := r.conn.Asked()
	for range 5 {
		r.allow(1)
	}
	if _, answered := r.conn.Asked(); answered != 2 {
		t.Errorf("%d of %d are answered, want 2", answered, sent)
	}
	r.request("c").flush()
	r.allow(1)
	if _, answered := r.conn.Asked(); sent != 3 || answered != sent {
		t.Errorf("%d of %d are answered, want all", answered, sent)
	}
}

// The time in which requests are kept back goes on when the stream is replaced.
func TestListeningThroughRotation(t *testing.T) {
	t.Parallel()
	r := rotatingRig(t)
	r.grow()
	before := r.conn.ListeningMicros(r.now)
	r.answerBeside("+OK\r\n")
	if after := r.conn.ListeningMicros(r.now); after != before {
		t.Errorf("listening for %d us before, %d after", before, after)
	}
}
