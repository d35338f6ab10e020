package e2e

import (
	"fmt"
	"net/http"
	"syscall"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// economyLog routes as economy does, and has the access log show which x-quota a request had in the
// end, in place of the response's flags.
func economyLog(c *envoyconf.Config) {
	economy(c)
	const format = "/access_log/envoy.access_loggers.file/typed_config/log_format/json_format"
	c.Set(envoyconf.ConnectionManager+format+"/flags", "%REQ(x-quota)%")
}

// onlyOne is a limit of one request.
const onlyOne = `"limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 1, ` + long + `}]`

// TestOverBesideUndecided: while Redis is away, in mode deny, a rule that is not decided makes a request
// a 503, which has no headers and costs no credits. What the worker remembers as over goes on,
// though the breaker is open.
func TestOverBesideUndecided(t *testing.T) {
	t.Parallel()
	const deny = `{"redis": {"cluster": "redis", "timeout": "3s"},
		"failure": {"mode": "deny", "breaker": {"failures": 1}}, "rules": [`
	s := start(t, deny+`
		{"name": "never", "match": {"path": "/never"}, "over": {"set_headers": {"x-quota": "over"}},
			"limits": [{"algorithm": "fixed_window", "limit": 0, `+long+`}]},
		{"name": "once", "match": {"path": "/once"}, "failure": "local",
			"over": {"set_headers": {"x-quota": "paid"}, "limits": [
			{"algorithm": "fixed_window", "anchor": "first_request", "limit": 2, `+long+`}]}, `+onlyOne+`},
		{"name": "strict", "match": {"headers": {"x-strict": {"present": true}}}, `+onlyOne+`}]}`,
		envoytest.Options{Workers: 1, Edit: economyLog, Beside: map[string]string{"alone": deny + `
			{"name": "alone", "key": [{"header": "x-user"}], "over": {"set_headers": {"x-quota": "over"}}, ` + onlyOne + `}]}`}})
	alone := s.Beside["alone"]
	for _, status := range []int{http.StatusOK, economyStatus} {
		testenv.Same(t, "with Redis: status", get(t, alone, "x-user: a").status, status)
	}
	s.redis.Signal(syscall.SIGSTOP)
	testenv.Same(t, "undecided: status", get(t, alone, "x-user: b").status, http.StatusServiceUnavailable)
	testenv.Same(t, "remembered, the breaker is open: status", get(t, alone, "x-user: a").status, economyStatus)
	s.redis.Kill()
	logged := len(s.LoggedAll(4))
	for i, tc := range []struct {
		path, header string
		status       int
		outcome, set string
	}{
		{"/never", "x-quota: forged", economyStatus, "over:never", "over"},
		{"/never", "x-strict: yes", 503, "failed:deny", ""},
		{"/once", "x-a: b", 200, "local:allowed", ""},
		{"/once", "x-strict: yes", 503, "failed:deny", ""},
		{"/once", "x-a: b", economyStatus, "over:once", "paid"},
		{"/once", "x-a: b", economyStatus, "over:once", "paid"},
		{"/once", "x-a: b", limitedStatus, "local:limited:once", ""},
	} {
		what := fmt.Sprintf("request %d: ", i)
		testenv.Same(t, what+"status", get(t, s.URL+tc.path, tc.header).status, tc.status)
		entry := s.LoggedAll(logged + i + 1)[logged+i]
		testenv.Same(t, what+"outcome", entry.State, tc.outcome)
		testenv.Same(t, what+"x-quota", entry.Flags, tc.set)
	}
}

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
