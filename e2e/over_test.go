package e2e

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// routeIsNotChosenAnew: a filter before Sluice changes a header by which routes go, after Envoy has
// chosen one. A request that brings no header of "over" keeps its route, also when it has waited for
// Redis. One that brings such a header, or gets it, has its route chosen anew.
var routeIsNotChosenAnew = plain{
	name: "a route is not chosen anew",
	config: `{"rules": [{"name": "r", "key": [{"header": "x-user"}], "over": {"set_headers": {"x-quota": "over"}},
		"limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 1, ` + long + `}]}]}`,
	edit: func(_ *testing.T, c *envoyconf.Config, _ string) {
		putFirst(c, c.Fragment(`
- name: late
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.filters.http.header_mutation.v3.HeaderMutation
    mutations: {request_mutations: [{append: {header: {key: x-late, value: "yes"}}}]}
`))
		c.Set(envoyconf.ConnectionManager+"/route_config/virtual_hosts/all/routes", c.Fragment(`
- match: {prefix: "/", headers: [{name: x-late, present_match: true}]}
  direct_response: {status: 202}
- match: {prefix: "/"}
  route: {cluster: upstream}
`))
	},
	play: func(t *testing.T, s *setting) {
		for i, tc := range []struct {
			headers []string
			status  int
		}{
			{nil, http.StatusOK},
			{[]string{"x-user: a"}, http.StatusOK},
			{[]string{"x-user: a"}, http.StatusAccepted},
			{[]string{"x-user: b", "x-quota: forged"}, http.StatusAccepted},
			{[]string{"x-user: c", "x-quotas: other"}, http.StatusOK},
		} {
			testenv.Same(t, fmt.Sprintf("request %d: status", i), get(t, s.URL, tc.headers...).status, tc.status)
		}
	},
}
