package main

import (
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/internal/wasmhost"
)

// redirect lets Envoy follow a redirection of the upstream's.
func (x *exchange) redirect(path string, namesAndValues ...string) *exchange {
	x.t.Helper()
	return &exchange{Stream: x.Stream.Redirect(302, wasmhost.Request("GET", path, namesAndValues...), true), t: x.t}
}

// A request that Envoy redirects internally is charged once, and its last response
// shows the limits.
func TestInternalRedirect(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		i := w.load(`{"rules": [` + perClient("a", 2) + `]}`)
		x := i.get("/first", client("x")...).redirect("/second", client("x")...)
		if x.waits() {
			t.Fatal("the second pass waits")
		}
		x = x.redirect("/third", client("x")...)
		testenv.Same(t, "after two redirections", x.end(),
			"200 allowed limit=2 remaining=1 reset=3600")
		testenv.Same(t, "the next request", i.get("/", client("x")...).end(),
			"200 allowed limit=2 remaining=0 reset=3600")
		testenv.Same(t, "one too many", i.get("/", client("x")...).end(),
			"429 limited:a limit=2 remaining=0 reset=3600 retry-after=3600")
	})
}

// A request behind an aborted one is its own, whatever it says of itself.
func TestNoRedirect(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		i := w.load(`{"rules": [` + perClient("a", 1) + `]}`)
		i.get("/", client("x")...).End() // admitted, and its client leaves
		headers := append(client("x"), "x-envoy-original-url", "http://a/")
		testenv.Same(t, "behind it", i.get("/", headers...).end(),
			"429 limited:a limit=1 remaining=0 reset=3600 retry-after=3600")
	})
}

// A question that was kept for a pass that never comes does not stay for another
// request.
func TestRedirectThatNeverComes(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		i := w.load(`{"rules": [` + perClient("a", 9) + `]}`)
		x := i.get("/", client("x")...)
		x.Properties["response.code_details"] = []byte("internal_redirect")
		x.End()
		i.wait(time.Second)
		testenv.Same(t, "of another client", i.get("/", client("y")...).end(),
			"200 allowed limit=9 remaining=8 reset=3600")
	})
}

const inFlight = `{"name": "a", "key": [{"header": "x-client"}], "limits": [{"algorithm": "concurrency", "limit": 9}]}`

// Each of several requests whose next passes are on a newer configuration gives its slots back.
func TestRedirectsToAnotherConfiguration(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		r := w.startRedis()
		i := w.load(withRedis(inFlight))
		var all []*exchange
		for range 3 {
			all = append(all, i.get("/", client("x")...))
			r.settle()
		}
		for _, x := range all {
			x.Properties["response.code_details"] = []byte("internal_redirect")
			x.End()
		}
		for range 3 {
			r.settle()
			i.wait(20 * time.Millisecond)
		}
		testenv.Same(w.t, "keys in the end", len(r.keys("rl:{a|")), 0)
	})
}

// A configuration that is replaced while a request is redirected never sees its next
// pass: it ends the request.
func TestRedirectToAnotherConfiguration(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		r := w.startRedis()
		i := w.load(withRedis(inFlight))
		x := i.get("/", client("x")...)
		r.settle()
		testenv.Same(w.t, "keys with a slot", len(r.keys("rl:{a|")), 1)
		i.Close()
		x.Properties["response.code_details"] = []byte("internal_redirect")
		x.End()
		for range 3 {
			r.settle()
			i.wait(20 * time.Millisecond)
		}
		testenv.Same(w.t, "keys in the end", len(r.keys("rl:{a|")), 0)
		if r.Conns[0].Open() {
			t.Error("the configuration has not ended")
		}
	})
}
