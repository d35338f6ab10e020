package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoytest"
)

// TestShippedListener: as envoy.yaml is shipped, the rules and the upstream read
// the same path, and what they might read in two ways does not get through.
func TestShippedListener(t *testing.T) {
	t.Parallel()
	upstream := envoytest.NewUpstream(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Path", r.RequestURI)
	}))
	s := start(t, `{`+patient+`"rules": [
		{"name": "health", "match": {"path": "/healthz"}, "exempt": true},
		{"name": "api", "match": {"path": {"prefix": "/api/"}}, "limits": [{"algorithm": "gcra", "limit": 100, `+long+`}]}
	]}`, envoytest.Options{Upstream: upstream.Addr})
	for _, test := range []struct {
		name, path, header string
		status             int
		upstream           string // the path that it got
		limit              string
		location           string
	}{
		{name: "plain", path: "/api/x", status: 200, upstream: "/api/x", limit: "100"},
		{name: "exempt", path: "/healthz", status: 200, upstream: "/healthz"},
		{name: "dot segments into the exempt path", path: "/api/x/../../healthz", status: 200, upstream: "/healthz"},
		{name: "dot segments out of the exempt path", path: "/healthz/../api/x", status: 200, upstream: "/api/x", limit: "100"},
		{name: "encoded dot segments", path: "/healthz/%2e%2e/api/x", status: 200, upstream: "/api/x", limit: "100"},
		{name: "repeated slashes", path: "//api///x", status: 200, upstream: "/api/x", limit: "100"},
		{name: "encoded letter", path: "/%61pi/x", status: 200, upstream: "/api/x", limit: "100"},
		{name: "encoded slash", path: "/healthz%2f..%2fapi/x", status: 307, location: "/api/x"},
		{name: "encoded backslash", path: "/healthz%5c..%5capi/x", status: 307, location: "/api/x"},
		{name: "header with an underscore", path: "/api/x", header: "X_Api_Key: a", status: 400},
		{name: "headers of 17 KB", path: "/api/x", header: "X-Large: " + strings.Repeat("x", 17<<10), status: 431},
	} {
		t.Run(test.name, func(t *testing.T) {
			var headers []string
			if test.header != "" {
				headers = append(headers, test.header)
			}
			r := get(t, s.URL+test.path, headers...)
			if r.status != test.status {
				t.Errorf("status %d, want %d", r.status, test.status)
			}
			if got := r.header.Get("X-Path"); got != test.upstream {
				t.Errorf("the upstream got %q, want %q", got, test.upstream)
			}
			if got := r.header.Get("X-Ratelimit-Limit"); got != test.limit {
				t.Errorf("limit %q, want %q", got, test.limit)
			}
			if got := r.header.Get("Location"); got != test.location {
				t.Errorf("location %q, want %q", got, test.location)
			}
		})
	}
}
