package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// shippedListener: as envoy.yaml is shipped, the rules and the upstream read
// the same path, and what they might read in two ways does not get through.
var shippedListener = plain{
	name: "shipped listener",
	config: `{"rules": [
		{"name": "health", "match": {"path": "/healthz"}, "exempt": true},
		{"name": "api", "match": {"path": {"prefix": "/api/"}},
			"limits": [{"algorithm": "gcra", "limit": 100, ` + long + `}]}]}`,
	play: func(t *testing.T, s *setting) {
		s.upstream.Handle(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Path", r.RequestURI)
		}))
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
			{
				name: "dot segments out of the exempt path", path: "/healthz/../api/x", status: 200,
				upstream: "/api/x", limit: "100",
			},
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
	},
}

// networks are so many of 256 addresses each, as members of a list.
func networks(n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf(`"10.%d.%d.0/24"`, i/256, i%256))
	}
	return strings.Join(list, ",")
}

// manyNetworks: a rule for ten thousand networks, behind one trusted hop.
var manyNetworks = plain{
	name:   "many networks",
	config: `{"rules": [{"name": "many", "match": {"client_ip": [` + networks(10_000) + `]}, ` + hundred + `}]}`,
	stores: embedded,
	edit: func(_ *testing.T, c *envoyconf.Config, _ string) {
		c.Set(envoyconf.ConnectionManager+"/xff_num_trusted_hops", 1)
	},
	play: func(t *testing.T, s *setting) {
		for i, address := range []string{"10.39.15.255", "10.39.16.0", "10.0.0.0"} {
			r := get(t, s.URL, "x-forwarded-for: "+address)
			testenv.Same(t, address+": remaining", r.header.Get("x-ratelimit-remaining"), []string{"99", "", "98"}[i])
		}
	},
}

// trustedHeaders: what docs/security.md tells those who trust headers. A filter
// before Sluice takes away what clients may not send, and another refuses names
// that are repeated.
var trustedHeaders = plain{
	name: "trusted headers",
	config: `{"rules": [{"name": "r", "key": [{"header": "x-api-key"}], "cost": {"header": "x-cost", "default": 10},
		"limits": [{"algorithm": "gcra", "limit": 100, ` + long + `}]}]}`,
	edit: func(t *testing.T, c *envoyconf.Config, _ string) {
		filters := blocks(t, "docs/security.md", "What Envoy must be told", "yaml")[0]
		putFirst(c, c.Fragment(filters))
	},
	play: func(t *testing.T, s *setting) {
		for _, test := range []struct {
			name      string
			headers   []string
			status    int
			remaining string
		}{
			{name: "its own cost", headers: []string{"X-Api-Key: a", "X-Cost: 0"}, status: http.StatusOK, remaining: "90"},
			{name: "a repeated key", headers: []string{"X-Api-Key: b", "X-Api-Key: a"}, status: http.StatusBadRequest},
		} {
			t.Run(test.name, func(t *testing.T) {
				r := get(t, s.URL, test.headers...)
				if r.status != test.status {
					t.Errorf("status %d, want %d", r.status, test.status)
				}
				if got := r.header.Get("X-Ratelimit-Remaining"); got != test.remaining {
					t.Errorf("remaining %q, want %q", got, test.remaining)
				}
			})
		}
	},
}
