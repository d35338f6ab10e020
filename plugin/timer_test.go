package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// The timer runs only while something waits for it.
func TestTimer(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		r := w.startRedis()
		i := w.load(withRedis(perClient("a", 9)))
		ticks := func(when string, want time.Duration) {
			t.Helper()
			if got := i.TickPeriod(); got != want {
				t.Errorf("%s: a tick every %v, want %v", when, got, want)
			}
		}
		ticks("until the first metrics are told", time.Second)
		i.NewStream()
		ticks("until Redis is tried", 4*time.Millisecond)
		i.wait(4 * time.Millisecond)
		ticks("while it is tried", 13*time.Millisecond)
		r.settle()
		i.wait(13 * time.Millisecond)
		ticks("until the first metrics are told", 983*time.Millisecond)
		i.wait(983 * time.Millisecond)
		ticks("until the idle stream is closed", 59*time.Second+4*time.Millisecond)
		x := i.get("/", client("x")...)
		ticks("while a request waits", 13*time.Millisecond)
		r.settle()
		i.wait(13 * time.Millisecond)
		ticks("when it was answered, until it is counted", 987*time.Millisecond)
		i.wait(987 * time.Millisecond)
		ticks("when it was counted, until the idle stream is closed", 59*time.Second)
		i.wait(59 * time.Second)
		ticks("when nothing waits any more", 0)
		x.End()
	})
}

// queueing is a leaky bucket that lets one request out in each 100 ms.
func queueing(more string) string {
	return `{"name": "q", "limits": [{"algorithm": "leaky_bucket", "limit": 10, "window": "1s", "burst": 4, "overflow": ` +
		`"queue"` + more + `}]}`
}

// Requests leave a queue evenly, in the order in which they came, the first at
// once; what the bucket cannot hold is rejected.
func TestQueue(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		i := w.load(`{"rules": [` + queueing("") + `]}`)
		var all []*exchange
		for range 5 {
			all = append(all, i.get("/"))
		}
		testenv.Same(t, "what does not fit", all[4].end(),
			"429 limited:q limit=4 remaining=0 reset=1 retry-after=1")
		for n := range 4 {
			for later, x := range all[:4] {
				if waits := later > n; x.waits() != waits {
					t.Errorf("after %d ms request %d waits: %v", n*100, later, !waits)
				}
			}
			if period := i.TickPeriod(); n == 0 && period != 100*time.Millisecond {
				t.Errorf("a tick every %v, want 100ms", period)
			}
			i.wait(99 * time.Millisecond)
			i.Tick() // as something else might have asked for
			if n < 3 && !all[n+1].waits() {
				t.Errorf("request %d left early", n+1)
			}
			i.wait(time.Millisecond)
		}
		i.wait(time.Second) // for the metrics
		if period := i.TickPeriod(); period != 0 {
			t.Errorf("a tick every %v with nothing in the queue", period)
		}
		for n, x := range all[:4] {
			testenv.Same(t, fmt.Sprint("request ", n), x.end(),
				fmt.Sprintf("200 allowed limit=4 remaining=%d reset=1", 3-n))
		}
	})
}

// A client that goes away while it is in the queue leaves it; the others keep
// their turns.
func TestClientLeavesQueue(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		i := w.load(`{"rules": [` + queueing("") + `]}`)
		var all []*exchange
		for range 4 {
			all = append(all, i.get("/"))
		}
		all[1].End()
		all[3].End()
		i.wait(100 * time.Millisecond)
		if !all[2].waits() {
			t.Error("took the turn of one that had left")
		}
		i.wait(100 * time.Millisecond)
		if all[2].waits() {
			t.Error("waits beyond its turn")
		}
		i.wait(time.Second) // for the metrics
		if period := i.TickPeriod(); period != 0 {
			t.Errorf("a tick every %v with nothing in the queue", period)
		}
		for _, x := range all {
			x.End()
		}
	})
}

// Nothing is held for longer than max_delay.
func TestQueueMaxDelay(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		i := w.load(`{"rules": [` + queueing(`, "max_delay": "150ms"`) + `]}`)
		first, second, third := i.get("/"), i.get("/"), i.get("/")
		testenv.Same(t, "the one that would wait 200 ms", third.end(),
			"429 limited:q limit=4 remaining=2 reset=1 retry-after=1")
		i.wait(100 * time.Millisecond)
		testenv.Same(t, "the one at the head", first.end(),
			"200 allowed limit=4 remaining=3 reset=1")
		testenv.Same(t, "the one that waited 100 ms", second.end(),
			"200 allowed limit=4 remaining=2 reset=1")
	})
}

// Of several queues the longest delay counts. A queue works through Redis, too,
// and holds no request in a shadow rule.
func TestQueueInRedis(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		r := w.startRedis()
		i := w.load(withRedis(queueing("") + `, {"name": "slow", "key": [{"header": "x-client"}],
			"limits": [{"algorithm": "leaky_bucket", "limit": 1, "window": "10s", "burst": 4, "overflow": "queue"}]},
			{"name": "trial", "mode": "shadow", "limits": [{"algorithm": "leaky_bucket", "limit": 1, "window": "1h", "burst": 4,
				"overflow": "queue"}]}`))
		first, second := i.get("/", client("x")...), i.get("/", client("x")...)
		r.settle()
		testenv.Same(w.t, "that the first waits", first.waits(), false)
		testenv.Same(w.t, "that the second waits", second.waits(), true)
		i.wait(9 * time.Second)
		if !second.waits() {
			t.Error("waited for the shorter queue only")
		}
		i.wait(time.Second)
		if second.waits() {
			t.Error("waits for longer than its turn, or in the shadow")
		}
		first.End()
		second.End()
	})
}
