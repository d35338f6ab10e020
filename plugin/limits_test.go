package main

import (
	"fmt"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/internal/wasmhost"
)

// perClient is a rule of one limit for each x-client.
func perClient(name string, limit int) string {
	return fmt.Sprintf(`{"name": %q, "key": [{"header": "x-client"}],
		"limits": [{"algorithm": "fixed_window", "limit": %d, "window": "1h", "anchor": "first_request"}]}`, name, limit)
}

// withRedis is a configuration that asks Redis.
func withRedis(rules string) string {
	return `{"redis": {"cluster": "redis"}, "rules": [` + rules + `]}`
}

// Requests that come while others wait are sent at once, and answered in order,
// however Redis' replies are cut into messages.
func TestPipelining(t *testing.T) {
	t.Parallel()
	for _, piece := range []int{0, 1, 7} {
		t.Run(fmt.Sprintf("messages of %d bytes", piece), func(t *testing.T) {
			t.Parallel()
			eachWorld(t, func(t *testing.T, w *worker) {
				r := w.startRedis()
				r.piece = piece
				i := w.load(withRedis(perClient("a", 2) + "," + perClient("b", 9)))
				var all []*exchange
				for range 4 {
					all = append(all, i.get("/", client("x")...), i.get("/", client("y")...))
				}
				if got := r.writes; got != 8 {
					t.Errorf("%d writes for 8 requests of 2 rules, want 8", got)
				}
				if got := r.settle(); piece == 0 && got != 3 {
					t.Errorf("%d messages, want 3: the replies to checks by hash, to checks by source and to refunds", got)
				}
				for n, x := range all {
					want := []string{
						"200 allowed limit=2 remaining=1 reset=3600",
						"200 allowed limit=2 remaining=0 reset=3600",
						"429 limited:a limit=2 remaining=0 reset=3600 retry-after=3600",
						"429 limited:a limit=2 remaining=0 reset=3600 retry-after=3600",
					}[n/2]
					testenv.Same(t, fmt.Sprint("request ", n+1), x.end(), want)
				}
				if len(r.Conns) != 1 {
					t.Errorf("%d streams, want 1", len(r.Conns))
				}
			})
		})
	}
}

// A Redis that has lost its scripts is sent them again, and no client notices.
func TestScriptsAreSentAgain(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		r := w.startRedis()
		i := w.load(withRedis(perClient("a", 9)))
		for n := range 3 {
			r.FlushScripts()
			x := i.get("/", client("x")...)
			r.settle()
			testenv.Same(t, "request", x.end(), fmt.Sprintf("200 allowed limit=9 remaining=%d reset=3600", 8-n))
		}
		if logs := w.logs(); len(logs) > 0 {
			t.Errorf("logged %q", logs)
		}
	})
}

// The body of a request that waits waits with it, and follows it whole.
func TestBodyFollows(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		r := w.startRedis()
		i := w.load(withRedis(perClient("a", 9)))
		x := &exchange{Stream: i.NewStream(), t: t}
		x.RequestHeaders(wasmhost.Request("POST", "/", client("x")...), false)
		x.RequestBody([]byte("the first half, "), false)
		r.settle()
		x.RequestBody([]byte("the second"), true)
		if got, want := string(x.Upstream.Body), "the first half, the second"; got != want {
			t.Errorf("body %q, want %q", got, want)
		}
		testenv.Same(t, "the request", x.end(), "200 allowed limit=9 remaining=8 reset=3600")
	})
}
