package e2e

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// economyStatus is the answer of the route that requests over a limit take.
const economyStatus = http.StatusAccepted

// onlyOne is a limit of one request.
const onlyOne = `"limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 1, ` + long + `}]`

// TestRouteIsNotChosenAnew: a filter before Sluice changes a header by which routes go, after Envoy has
// chosen one. A request that brings no header of "over" keeps its route, also when it has waited for
// Redis. One that brings such a header, or gets it, has its route chosen anew.
func TestRouteIsNotChosenAnew(t *testing.T) {
	t.Parallel()
	edit := func(c *envoyconf.Config) {
		before(`
- name: late
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.filters.http.header_mutation.v3.HeaderMutation
    mutations: {request_mutations: [{append: {header: {key: x-late, value: "yes"}}}]}
`)(c)
		c.Set(envoyconf.ConnectionManager+"/route_config/virtual_hosts/all/routes", c.Fragment(fmt.Sprintf(`
- match: {prefix: "/", headers: [{name: x-late, present_match: true}]}
  direct_response: {status: %d}
- match: {prefix: "/"}
  route: {cluster: upstream}
`, economyStatus)))
	}
	s := start(t, `{`+patient+`"rules": [{"name": "r", "key": [{"header": "x-user"}],
		"over": {"set_headers": {"x-quota": "over"}}, `+onlyOne+`}]}`, envoytest.Options{Edit: edit})
	for i, tc := range []struct {
		headers []string
		status  int
	}{
		{nil, http.StatusOK},
		{[]string{"x-user: a"}, http.StatusOK},
		{[]string{"x-user: a"}, economyStatus},
		{[]string{"x-user: b", "x-quota: forged"}, economyStatus},
		{[]string{"x-user: c", "x-quotas: other"}, http.StatusOK},
	} {
		testenv.Same(t, fmt.Sprintf("request %d: status", i), get(t, s.URL, tc.headers...).status, tc.status)
	}
}
