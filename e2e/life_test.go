package e2e

import (
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// internalRedirect: Envoy follows an upstream's redirect itself.
// The client has sent one request, and sees its limit once. A request that is over keeps its header
// in the next pass, and is paid for once.
var internalRedirect = plain{
	name: "an internal redirect is charged once",
	config: `{"rules": [
		{"name": "r", "match": {"headers": {"x-user": "u"}},
			"limits": [{"algorithm": "fixed_window", "limit": 3, ` + long + `}]},
		{"name": "quota", "match": {"headers": {"x-user": "paying"}}, "over": {"set_headers": {"x-quota": "paid"}, "limits": [
			{"algorithm": "fixed_window", "anchor": "first_request", "limit": 3, ` + long + `}]},
			"limits": [{"algorithm": "fixed_window", "limit": 0, ` + long + `}]}]}`,
	edit: followRedirects,
	play: func(t *testing.T, s *setting) {
		const limit = 3
		s.upstream.Handle(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/first" {
				w.Header().Set("location", "http://"+r.Host+"/second")
				w.WriteHeader(http.StatusFound)
				return
			}
			_, _ = io.WriteString(w, "second "+r.Header.Get("x-quota"))
		}))
		for i := range limit {
			r := get(t, s.URL+"/first", "x-user: u")
			testenv.Same(t, "body", r.body, "second ")
			expectHeaders(t, r, map[string]string{
				"x-ratelimit-limit":     fmt.Sprint(limit),
				"x-ratelimit-remaining": fmt.Sprint(limit - 1 - i),
			})
			over := get(t, s.URL+"/first", "x-user: paying", "x-quota: forged")
			testenv.Same(t, "the header of the last pass", over.body, "second paid")
		}
		for _, user := range []string{"x-user: u", "x-user: paying"} {
			testenv.Same(t, user+": one more: status", get(t, s.URL+"/first", user).status, http.StatusTooManyRequests)
		}
		forged := get(t, s.URL+"/second", "x-user: u", "x-envoy-original-url: http://x/first")
		testenv.Same(t, "a client that claims to be redirected: status", forged.status, http.StatusTooManyRequests)
		testenv.Same(t, "requests of the upstream", s.upstream.Count(), 4*limit)
	},
}

// followRedirects makes Envoy follow the upstream's redirects.
func followRedirects(_ *testing.T, c *envoyconf.Config, _ string) {
	c.Set(envoyconf.ConnectionManager+"/route_config/virtual_hosts/all/routes/0/route", c.Fragment(`
cluster: upstream
internal_redirect_policy: {max_internal_redirects: 1, redirect_response_codes: [302]}
`))
}
