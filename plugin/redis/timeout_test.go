package redis

import (
	"math/rand/v2"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// A check waits for the timeout, not less, and at most a tick longer.
func TestTimeout(t *testing.T) {
	t.Parallel()
	r := newRig(t, testOptions())
	w := r.request("a").flush()
	r.pass(50*ms - 1)
	w.wantAll("waits")
	r.pass(1)
	w.wantAll("expired")
	r.wantInFlight(1)
	r.pass(50 * ms)
	r.allow(1)
	w.want("expired, at 1")
	r.wantInFlight(0)
	if len(r.roundTrips) != 1 || r.roundTrips[0] != 100*ms {
		t.Errorf("round trips %v, want that of the late reply", r.roundTrips)
	}
	if next := r.request("b").flush(); r.allow(2)[3] != "rl:{b}:gcra:1s" {
		t.Error("the next request asked for another key")
	} else {
		next.want("at 2")
	}
}

// Ticks follow each other closely enough while something is in the pipe, and
// stop when nothing is.
func TestNextTick(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ timeout, want int64 }{
		{1 * ms, 4 * ms},
		{50 * ms, 13 * ms},
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
		r.request("a").flush()
		want(tc.want, "while it waits")
		r.allow(1)
		want(restMicros, "when nothing is in the pipe")
		r.trip(5)
		want(r.conn.link.health.breaker.dueMicros-r.now, "while the breaker is open")
		r.now = r.conn.link.health.breaker.dueMicros - 1
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
		old := 0
		for _, s := range waiting {
			h, age := s.w.checks[0], r.now-s.at
			if h.expired && age < options.TimeoutMicros {
				t.Fatalf("expired after %d us", age)
			}
			if h.expired || h.over() {
				old++
				continue
			}
			if late := age - options.TimeoutMicros; late >= period+2*137 {
				t.Fatalf("not expired %d us late, a tick is %d", late, period)
			}
		}
		waiting = waiting[old:]
	}
	if r.failed[Timeout] == 0 {
		t.Error("nothing timed out")
	}
}

// A worker that stands still hears nothing, and that is not Redis' silence: of
// the time between two ticks no more counts than the ticks were asked for.
func TestStandstill(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name       string
		do         func(*rig)
		wantExpire bool
	}{
		{name: "no tick for a second", do: func(r *rig) { r.stall(1000 * ms); r.conn.Tick(r.now) }},
		{name: "a tick in time, then a standstill", do: func(r *rig) {
			r.pass(13 * ms)
			r.stall(500 * ms)
			r.conn.Tick(r.now)
		}},
		{name: "requests are read, replies are not", do: func(r *rig) {
			for range 100 {
				r.stall(10 * ms)
				r.request("b").flush()
			}
			r.conn.Tick(r.now)
		}},
		{name: "three standstills", do: func(r *rig) {
			for range 3 {
				r.stall(100 * ms)
				r.conn.Tick(r.now)
			}
		}},
		{name: "four standstills, with a period before each", do: func(r *rig) {
			for range 4 {
				r.stall(100 * ms)
				r.conn.Tick(r.now)
			}
		}, wantExpire: true},
		{name: "ticks in time", do: func(r *rig) { r.pass(50 * ms) }, wantExpire: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, testOptions())
			w := r.request("a").flush()
			tc.do(r)
			if got := w.checks[0].expired; got != tc.wantExpire {
				t.Errorf("expired: %v, want %v", got, tc.wantExpire)
			}
			if !r.open {
				t.Error("the stream was taken for stalled")
			}
		})
	}
}

// A worker reads what has come, then runs the timer, then other callbacks, in
// turns of any length. No check of a Redis that answers in time expires, and no
// other before the worker has listened for the timeout.
func TestStandstillsAtRandom(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 7))
		options := testOptions()
		options.Breaker.Failures = 1 << 30
		r := newRig(t, options)
		type sent struct {
			w          *client
			at         int64 // when it was sent
			afterReply int64 // when Redis answers it
		}
		var waiting []*sent
		tick := int64(0)
		for range 400 {
			turn := r.now // what has come until now is read in this turn
			for len(waiting) > 0 && waiting[0].afterReply <= turn {
				s := waiting[0]
				waiting = waiting[1:]
				r.allow(1)
				if s.afterReply-s.at < options.TimeoutMicros && s.w.checks[0].expired {
					t.Fatalf("seed %d: a check that was answered after %d us expired", seed, s.afterReply-s.at)
				}
			}
			if tick > 0 && turn >= tick {
				if random.IntN(4) == 0 { // other callbacks come first
					r.stall(random.Int64N(300 * ms))
				}
				r.conn.Tick(r.now)
				tick = 0
			}
			for range random.IntN(3) {
				latency := random.Int64N(40 * ms)
				if random.IntN(3) == 0 {
					latency = 1 << 40 // never
				}
				s := &sent{w: r.request("a").flush(), at: r.now, afterReply: r.now + latency}
				if n := len(waiting); n > 0 {
					s.afterReply = max(s.afterReply, waiting[n-1].afterReply)
				}
				if s.w.refused == NoCause {
					waiting = append(waiting, s)
				}
				r.stall(random.Int64N(20 * ms))
			}
			for _, s := range waiting {
				if s.w.checks[0].expired && r.now-s.at < options.TimeoutMicros {
					t.Fatalf("seed %d: expired after %d us", seed, r.now-s.at)
				}
			}
			if next := r.conn.NextTickMicros(r.now); tick == 0 && next > 0 {
				tick = r.now + next
			}
			r.now = max(r.now+1, min(r.now+random.Int64N(10*ms), max(tick, r.now+1)))
			if !r.open {
				waiting = waiting[:0]
			}
		}
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
	first.want("expired")
	second := r.request("c").flush()
	r.pass(40*ms - 1)
	second.want("waits")
	if !r.open {
		t.Fatal("the stream was closed too early")
	}
	r.pass(1)
	first.want("expired, connection_lost")
	second.want("connection_lost")
	if r.open {
		t.Fatal("the stream is still open")
	}
	r.wantInFlight(0)
	third := r.request("d").flush()
	if r.streams != 2 || r.reconnected != 0 {
		t.Errorf("%d streams, %d reconnects; want another stream at once", r.streams, r.reconnected)
	}
	r.prove()
	testenv.Same(t, "reconnects once it has answered", r.reconnected, 1)
	r.allow(4)
	third.want("at 4")
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
	a.wantAll("expired")
	b.wantAll("waits")
	r.allow(1)
	a.want("expired, at 1")
	b.wantAll("waits")
	r.allow(2)
	b.want("at 2")
}
