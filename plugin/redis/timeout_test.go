package redis

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// A worker reads what has come, then runs the timer, then other callbacks, in
// turns of any length. No check of a Redis that answers in time expires, and no
// other before the worker has listened for the timeout.
func TestStandstillsAtRandom(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 7))
		r := newRig(t, "failures=1000000")
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
				r.step("allow 1")
				if s.afterReply-s.at < r.conn.options.TimeoutMicros && strings.HasPrefix(s.w.heard[0], "expired") {
					t.Fatalf("seed %d: a check that was answered after %d us expired", seed, s.afterReply-s.at)
				}
			}
			if tick > 0 && turn >= tick {
				if random.IntN(4) == 0 { // other callbacks come first
					r.step(fmt.Sprintf("stall %dus", random.Int64N(300*ms)))
				}
				r.conn.Tick(r.now)
				tick = 0
			}
			for range random.IntN(3) {
				latency := random.Int64N(40 * ms)
				if random.IntN(3) == 0 {
					latency = 1 << 40 // never
				}
				s := &sent{w: r.ask("a"), at: r.now, afterReply: r.now + latency}
				if n := len(waiting); n > 0 {
					s.afterReply = max(s.afterReply, waiting[n-1].afterReply)
				}
				if s.w.refused == NoCause {
					waiting = append(waiting, s)
				}
				r.step(fmt.Sprintf("stall %dus", random.Int64N(20*ms)))
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
	r := newRig(t, "failures=1000")
	r.do("140 * ask a; pass 1ms") // each reply takes 140 ms
	r.do("860 * ask a; pass 1ms; allow")
	testenv.Same(t, "the streams", r.streams, 1)
}
