package redis

import (
	"math/rand/v2"
	"testing"
)

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
