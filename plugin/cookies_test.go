package main

import (
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// All Cookie fields of a request are one, and reading them is one call, whatever many rules do.
func TestCookieFields(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *worker) {
		i := w.load(`{"rules": [{"name": "a", "key": [{"cookie": "session"}], ` + once + `},
			{"name": "b", "key": [{"cookie": "other", "default": ""}], "match": {"headers": {"cookie": {"contains": "session"}}},
				"limits": [{"algorithm": "gcra", "limit": 1000, "window": "1s"}]}]}`)
		calls := w.callsOf(func() { i.get("/", "cookie", "a=1", "x-b", "1", "cookie", "session=A").End() })
		testenv.Same(t, "calls for all headers", calls["proxy_get_header_map_pairs"], 1)
		testenv.Same(t, "the outcome of the same value", i.get("/", "cookie", "session=A; a=2").outcome(), "limited:a")
	})
}
