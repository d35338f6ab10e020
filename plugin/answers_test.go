package main

import (
	"testing"

	"github.com/sluiceproxy/sluice/internal/wasmhost"
)

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
		expectHeaders(t, x.respond(), want)
	})
}

// expectHeaders compares all headers, in order.
func expectHeaders(t *testing.T, got, want wasmhost.Pairs) {
	t.Helper()
	for n := range max(len(got), len(want)) {
		var g, w [2]string
		if n < len(got) {
			g = got[n]
		}
		if n < len(want) {
			w = want[n]
		}
		if g != w {
			t.Errorf("header %d is %q, want %q", n, g, w)
		}
	}
}
