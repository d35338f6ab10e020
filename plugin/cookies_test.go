package main

import (
	"testing"

	"github.com/sluiceproxy/sluice/internal/wasmhost"
)

// All Cookie fields of a request are one, and reading them is one call.
func TestCookieFields(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *worker) {
		i := w.load(`{"rules": [
			{"name": "a", "key": [{"cookie": "session"}],
				"limits": [{"algorithm": "fixed_window", "limit": 2, "window": "1h", "anchor": "first_request"}]},
			{"name": "b", "key": [{"cookie": "other", "default": ""}], "match": {"headers": {"cookie": {"contains": "session"}}},
				"limits": [{"algorithm": "gcra", "limit": 1000, "window": "1s"}]}]}`)
		for _, tt := range []struct {
			name    string
			headers []string
			want    string
		}{
			{name: "one field", headers: []string{"cookie", "a=1; session=A"}, want: "allowed"},
			{name: "two fields", headers: []string{"cookie", "a=1", "x-b", "1", "cookie", "session=A"}, want: "allowed"},
			{name: "the limit is one", headers: []string{"cookie", "session=A", "cookie", "session=A"}, want: "limited:a"},
			{name: "several", headers: []string{"cookie", "session=A", "cookie", "session=B"}, want: "allowed"},
			{name: "several others", headers: []string{"cookie", "session=C; session=A"}, want: "allowed"},
			{name: "several are one", headers: []string{"cookie", "session=B", "cookie", "session=C"}, want: "limited:a"},
			{name: "no such cookie", headers: []string{"cookie", "a=1", "cookie", "b=1"}, want: "none"},
		} {
			t.Run(tt.name, func(t *testing.T) {
				calls := w.callsOf(func() {
					x := i.open(wasmhost.Request("GET", "/", tt.headers...))
					if got := x.outcome(); got != tt.want {
						t.Errorf("outcome is %q, want %q", got, tt.want)
					}
					x.End()
				})
				if got := calls["proxy_get_header_map_pairs"]; got != 1 {
					t.Errorf("%d calls for all headers, want 1", got)
				}
			})
		}
	})
}
