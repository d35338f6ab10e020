package main

import (
	"strconv"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/scenario"
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/internal/wasmhost"
)

// exchange is one request and what became of it.
type exchange struct {
	*wasmhost.Stream

	t *testing.T
}

// open brings a request's headers.
func (i *instance) open(headers wasmhost.Pairs) *exchange {
	x := &exchange{Stream: i.NewStream(), t: i.worker.t}
	x.RequestHeaders(headers, true)
	return x
}

// get opens a GET request.
func (i *instance) get(path string, namesAndValues ...string) *exchange {
	return i.open(wasmhost.Request("GET", path, namesAndValues...))
}

// waits reports whether the request is paused, with no answer yet.
func (x *exchange) waits() bool { return x.RequestPaused() && x.Local == nil }

// outcome is the filter state for access logs.
func (x *exchange) outcome() string { return string(x.FilterState["wasm.sluice"]) }

// respond lets the upstream answer a request that has passed, and returns what
// the client gets, without the status.
func (x *exchange) respond(status string, namesAndValues ...string) wasmhost.Pairs {
	x.t.Helper()
	if x.Upstream.Headers == nil {
		x.t.Fatalf("the request has not passed: %s", x.outcome())
	}
	x.ResponseHeaders(wasmhost.Response(status, namesAndValues...), true)
	return x.Downstream.Headers[1:]
}

// end lets the upstream answer if it was asked, ends the exchange and returns what
// became of it, as scenarios show it.
func (x *exchange) end() string {
	x.t.Helper()
	if x.Local == nil && !x.waits() {
		x.respond("200")
	}
	a := x.answer()
	x.End()
	return a.String()
}

// answer is what the client has got by now.
func (x *exchange) answer() (a scenario.Answer) {
	x.t.Helper()
	if x.waits() {
		return a
	}
	a.Outcome, a.Headers = x.outcome(), x.Downstream.Headers[1:]
	var err error
	if a.Status, err = strconv.Atoi(x.Downstream.Headers[0][1]); err != nil {
		x.t.Error(err)
	}
	if want := strings.ReplaceAll(a.Outcome, " ", "_"); x.Local != nil && x.Local.Details != want {
		x.t.Errorf("response code details %q, want the outcome %q", x.Local.Details, want)
	}
	return a
}

// once is a limit that admits one request an hour.
const once = `"limits": [{"algorithm": "fixed_window", "limit": 1, "window": "1h"}]`

// client is the headers of a request by one client.
func client(name string) []string { return []string{"x-client", name} }

// X-RateLimit-* stand before the draft fields, however they are configured.
func TestHeaderOrder(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		i := w.load(`{"headers": ["draft", "x-ratelimit"], "rules": [{"name": "a", ` + once + `}]}`)
		x := i.get("/")
		defer x.End()
		want := wasmhost.Pairs{
			{"x-ratelimit-limit", "1"},
			{"x-ratelimit-remaining", "0"},
			{"x-ratelimit-reset", "3600"},
			{"ratelimit-policy", `"a";q=1;w=3600`},
			{"ratelimit", `"a";r=0;t=3600`},
		}
		testenv.SameList(t, "the headers, in order", x.respond("200"), want)
	})
}
