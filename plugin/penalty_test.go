package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// penalized is a rule of one request an hour, by which three rejections within a
// minute earn a block.
const penalized = `{"name": "a", "key": [{"header": "x-client"}],
	"limits": [{"algorithm": "fixed_window", "limit": 1, "window": "1h", "anchor": "first_request"}],
	"penalty": {"after": 3, "within": "1m", "for": ["5m", "2h"]}}`

// What a worker rejects from memory counts, with the client's next call.
func TestPenaltyCountsRejectionsFromMemory(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		r := w.startRedis()
		i := w.load(withRedis(penalized))
		ask := func(want string) (writes int) {
			before := r.writes()
			x := i.get("/", client("x")...)
			r.settle()
			testenv.Same(t, "outcome", x.end().Outcome, want)
			return r.writes() - before
		}
		ask("allowed")
		for n, want := range []int{1, 0, 0} { // one by Redis, then from memory
			if got := ask("limited:a"); got != want {
				t.Errorf("rejection %d: asked Redis %d times, want %d", n+1, got, want)
			}
			w.clock.advance(100 * time.Millisecond)
		}
		if got := ask("blocked:a"); got != 1 { // by three rejections, of which Redis has heard of one
			t.Errorf("asked Redis %d times", got)
		}
		for range 3 {
			if got := ask("blocked:a"); got != 0 {
				t.Errorf("a blocked client costs Redis %d calls", got)
			}
		}
	})
}

// A rejection that earns a block tells the client to wait for that, and from then on
// the worker blocks from memory.
func TestPenaltyIsEarned(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		r := w.startRedis()
		i := w.load(`{"redis": {"cluster": "redis"}, "rules": [{"name": "a", "key": [{"header": "x-client"}],
			"limits": [{"algorithm": "fixed_window", "limit": 1, "window": "1h", "anchor": "first_request"}],
			"penalty": {"after": 1, "within": "1m", "for": ["5h"]}}]}`)
		for n, want := range []result{
			{Status: 200, Outcome: "allowed", Limit: 1, Remaining: 0, Reset: 3600},
			{Status: 429, Outcome: "limited:a", Limit: 1, Remaining: 0, Reset: 3600, RetryAfter: 18000},
			{Status: 429, Outcome: "blocked:a", Limit: 1, Remaining: 0, Reset: 18000, RetryAfter: 18000},
		} {
			before := r.writes()
			x := i.get("/", client("x")...)
			r.settle()
			w.expect(fmt.Sprint("request ", n+1), x.end(), want)
			if got := r.writes() - before; n == 2 && got != 0 {
				t.Errorf("asked Redis %d times about a block that it had just been told of", got)
			}
		}
	})
}

// Free lifts a penalty, for good.
func TestFreeLiftsAPenalty(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		r := w.startRedis()
		i := w.load(withRedis(overridden(`, "penalty": {"after": 1, "within": "1m", "for": ["5h"]}`)))
		ask := func(want string) {
			w.clock.advance(time.Second)
			x := i.get("/", client("x")...)
			r.settle()
			testenv.Same(t, "outcome", x.end().Outcome, want)
		}
		for range 5 {
			ask("allowed")
		}
		ask("limited:a")
		ask("blocked:a")
		r.override(overrideOfX, "x9", 0)
		ask("blocked:a")
		r.override(overrideOfX, "free", 0)
		ask("allowed")
		r.override(overrideOfX, "", 0)
		ask("limited:a")
		ask("blocked:a")
	})
}
