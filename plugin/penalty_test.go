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

// blockedFor and limitedFor are a 429 of rule a, whose limit is 1.
func blockedFor(left int) result {
	return result{Status: 429, Outcome: "blocked:a", Limit: 1, Remaining: 0, Reset: left, RetryAfter: left}
}

func limitedFor(left, wait int) result {
	return result{Status: 429, Outcome: "limited:a", Limit: 1, Remaining: 0, Reset: left, RetryAfter: wait}
}

// In the embedded store the clock is the test's: every number is exact.
func TestPenaltyInTheEmbeddedStore(t *testing.T) {
	t.Parallel()
	scenario{
		name: "escalation and decay", config: `"rules": [` + penalized + `]`,
		steps: []step{
			{headers: client("x"), want: result{Status: 200, Outcome: "allowed", Limit: 1, Remaining: 0, Reset: 3600}},
			{headers: client("x"), want: limitedFor(3600, 3600)},
			{after: 59 * time.Second, headers: client("x"), want: limitedFor(3541, 3541)},
			{after: time.Second, headers: client("x"), want: limitedFor(3540, 3540)}, // the minute is over
			{after: time.Second, headers: client("x"), want: limitedFor(3539, 3539)},
			{after: time.Second, headers: client("x"), want: limitedFor(3538, 3538)}, // the third
			{headers: client("x"), want: blockedFor(300)},
			{headers: client("y"), want: result{Status: 200, Outcome: "allowed", Limit: 1, Remaining: 0, Reset: 3600}},
			{after: 299999 * time.Millisecond, headers: client("x"), want: blockedFor(1)},
			{after: time.Millisecond, headers: client("x"), want: limitedFor(3238, 3238)},
			{headers: client("x"), want: limitedFor(3238, 3238)},
			{headers: client("x"), want: limitedFor(3238, 7200)}, // it waits for the block that it has earned
			{headers: client("x"), want: blockedFor(7200)},
			{
				after: 2 * time.Hour, headers: client("x"),
				want: result{Status: 200, Outcome: "allowed", Limit: 1, Remaining: 0, Reset: 3600},
			},
			{
				after: 4 * time.Hour, headers: client("x"),
				want: result{Status: 200, Outcome: "allowed", Limit: 1, Remaining: 0, Reset: 3600},
			},
			{headers: client("x"), want: limitedFor(3600, 3600)},
			{headers: client("x"), want: limitedFor(3600, 3600)},
			{headers: client("x"), want: limitedFor(3600, 3600)},
			{headers: client("x"), want: blockedFor(300)}, // all is forgotten: the first one again
		},
	}.run(t)
}

// Blocks of rules that admit nothing, or all.
func TestPenaltyOfOtherLimits(t *testing.T) {
	t.Parallel()
	scenario{
		name: "a limit of 0, and a cost of 0", config: `"rules": [{"name": "a", "key": [{"header": "x-client"}],
			"cost": {"header": "x-cost", "default": 1},
			"limits": [{"algorithm": "gcra", "limit": 0, "window": "1s"}],
				"penalty": {"after": 2, "within": "1m", "for": ["1m"]}}]`,
		steps: []step{
			{headers: client("x"), want: result{Status: 429, Outcome: "limited:a", Limit: 0}},
			{headers: append(client("x"), "x-cost", "0"), want: result{Status: 200, Outcome: "allowed", Limit: 0}},
			{headers: client("x"), want: result{Status: 429, Outcome: "limited:a", Limit: 0}},
			{
				headers: append(client("x"), "x-cost", "0"),
				want:    result{Status: 429, Outcome: "blocked:a", Limit: 0, Reset: 60, RetryAfter: 60},
			},
			{
				after: time.Minute, headers: append(client("x"), "x-cost", "0"),
				want: result{Status: 200, Outcome: "allowed", Limit: 0},
			},
		},
	}.run(t)
	scenario{
		name: "an unlimited tier knows the block", config: `"rules": [{"name": "a", "key": [{"header": "x-client"}],
			"limits_by": {"source": {"header": "x-plan"}, "default": "staff", "values": {"staff": "unlimited",
				"none": [{"algorithm": "fixed_window", "limit": 0, "window": "1h"}]}},
					"penalty": {"after": 1, "within": "1m", "for": ["1m"]}}]`,
		steps: []step{
			{headers: client("x"), want: result{Status: 200, Outcome: "allowed"}},
			{headers: append(client("x"), "x-plan", "none"), want: result{Status: 429, Outcome: "limited:a"}},
			{headers: client("x"), want: result{Status: 429, Outcome: "blocked:a", Reset: 60, RetryAfter: 60}},
			{after: time.Minute, headers: client("x"), want: result{Status: 200, Outcome: "allowed"}},
		},
	}.run(t)
}

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
