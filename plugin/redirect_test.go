package main

import (
	"testing"
	"time"

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
		w.expect("after two redirections", x.end(), result{Status: 200, Outcome: "allowed", Limit: 2, Remaining: 1, Reset: 3600})
		w.expect("the next request", i.get("/", client("x")...).end(), result{Status: 200, Outcome: "allowed", Limit: 2, Remaining: 0, Reset: 3600})
		w.expect("one too many", i.get("/", client("x")...).end(),
			result{Status: 429, Outcome: "limited:a", Limit: 2, Remaining: 0, Reset: 3600, RetryAfter: 3600, ContentType: "application/problem+json"})
	})
}

// A request behind an aborted one is its own, whatever it says of itself.
func TestNoRedirect(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		i := w.load(`{"rules": [` + perClient("a", 1) + `]}`)
		i.get("/", client("x")...).End() // admitted, and its client leaves
		headers := append(client("x"), "x-envoy-original-url", "http://a/")
		w.expect("behind it", i.get("/", headers...).end(),
			result{Status: 429, Outcome: "limited:a", Limit: 1, Remaining: 0, Reset: 3600, RetryAfter: 3600, ContentType: "application/problem+json"})
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
		w.expect("of another client", i.get("/", client("y")...).end(), result{Status: 200, Outcome: "allowed", Limit: 9, Remaining: 8, Reset: 3600})
	})
}
