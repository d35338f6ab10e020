package redis

import "testing"

// A check waits for the timeout, not less, and at most a tick longer.
func TestTimeout(t *testing.T) {
	t.Parallel()
	r := newRig(t, testOptions())
	w := r.request("a").flush()
	r.pass(50*ms - 1)
	w.wantWaiting()
	r.pass(1)
	w.wantFailed(Timeout)
	r.wantInFlight(1)
	r.pass(50 * ms)
	r.allow(1) // late, for nobody
	r.wantInFlight(0)
	if len(r.roundTrips) != 1 || r.roundTrips[0] != 100*ms {
		t.Errorf("round trips %v, want that of the late reply", r.roundTrips)
	}
	if next := r.request("b").flush(); r.allow(2)[3] != "rl:{b}:gcra:1s" || next.decided[0] != 2 {
		t.Errorf("the next request was decided at %v", next.decided)
	}
}

// Ticks follow each other closely enough while something is in the pipe, and
// stop when nothing is.
func TestNextTick(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ timeout, want int64 }{
		{1 * ms, 4 * ms},
		{50 * ms, 12_500},
		{60_000 * ms, 20 * ms},
	} {
		options := testOptions()
		options.TimeoutMicros = tc.timeout
		r := newRig(t, options)
		want := func(want int64, when string) {
			if got := r.conn.NextTickMicros(r.now); got != want {
				t.Errorf("timeout %d, %s: the next tick is in %d, want %d", tc.timeout, when, got, want)
			}
		}
		want(0, "before the first request")
		w := r.request("a").flush()
		want(tc.want, "while it waits")
		w.abandon(false)
		want(tc.want, "while a reply is due")
		r.allow(1)
		want(0, "when nothing is in the pipe")
		r.trip(5)
		want(r.conn.breaker.dueMicros-r.now, "while the breaker is open")
		r.now = r.conn.breaker.dueMicros - 1
		want(minTickMicros, "just before the probe")
		r.pass(1)
		want(tc.want, "while the probe waits")
	}
}

// With the ticks that NextTickMicros asks for, requests that come at any time
// wait from the timeout to a tick more.
func TestTimeoutIsAtMostATickLate(t *testing.T) {
	t.Parallel()
	options := testOptions()
	options.Breaker.Failures = 1 << 30
	r := newRig(t, options)
	type sent struct {
		at int64
		w  *client
	}
	var waiting []sent
	tick := r.now
	for range 3000 {
		r.now += 137
		waiting = append(waiting, sent{r.now, r.request("a").flush()})
		if len(r.commands) > 400 { // replies take 55 ms
			r.allow(1)
		}
		if r.now < tick {
			continue
		}
		r.conn.Tick(r.now)
		period := r.conn.NextTickMicros(r.now)
		tick = r.now + period
		for len(waiting) > 0 && (waiting[0].w.left() == 0 || r.now-waiting[0].at >= options.TimeoutMicros) {
			if s := waiting[0]; s.w.left() > 0 {
				s.w.wantFailed(Timeout)
				if late := r.now - s.at - options.TimeoutMicros; late >= period+137 {
					t.Fatalf("failed %d us late, a tick is %d", late, period)
				}
			}
			waiting = waiting[1:]
		}
		for _, s := range waiting {
			if len(s.w.failures) > 0 {
				t.Fatalf("failed after %d us", r.now-s.at)
			}
		}
	}
	if r.failed[Timeout] == 0 {
		t.Error("nothing timed out")
	}
}

// A stream whose oldest command has had no reply for three timeouts is closed;
// who was still waiting has not timed out but lost it.
func TestStalledStream(t *testing.T) {
	t.Parallel()
	options := testOptions()
	options.Breaker.Failures = 100
	r := newRig(t, options)
	r.request("a").flush()
	r.allow(1)
	first := r.request("b").flush()
	r.pass(110 * ms)
	first.wantFailed(Timeout)
	second := r.request("c").flush()
	r.pass(40*ms - 1)
	second.wantWaiting()
	if !r.open {
		t.Fatal("the stream was closed too early")
	}
	r.pass(1)
	second.wantFailed(Lost)
	if r.open {
		t.Fatal("the stream is still open")
	}
	r.wantInFlight(0)
	third := r.request("d").flush()
	if r.streams != 2 || r.reconnected != 1 {
		t.Errorf("%d streams, %d reconnects; want another stream at once", r.streams, r.reconnected)
	}
	r.allow(4)
	third.wantDecided(4)
}

// A stream that answers is not stalled, however much is in the pipe.
func TestBusyStreamIsNotStalled(t *testing.T) {
	t.Parallel()
	options := testOptions()
	options.Breaker.Failures = 1000
	r := newRig(t, options)
	for i := range int64(1000) {
		r.request("a").flush()
		r.pass(1 * ms)
		if i >= 140 { // each reply takes 140 ms
			r.allow(i)
		}
	}
	if r.streams != 1 {
		t.Errorf("%d streams, want one", r.streams)
	}
}

// The timeout is each request's own; the pipe keeps the order.
func TestTimeoutOfEach(t *testing.T) {
	t.Parallel()
	r := newRig(t, testOptions())
	a := r.request("a").flush()
	r.pass(20 * ms)
	b := r.request("b").flush()
	r.pass(30 * ms)
	a.wantFailed(Timeout)
	b.wantWaiting()
	r.allow(1)
	b.wantWaiting()
	r.allow(2)
	b.wantDecided(2)
}
