package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/envoytest"
)

// applied is a step that a rule applies to, with this much remaining of 100.
func applied(remaining int, headers ...string) step { return left(remaining, "", headers...) }

// claims puts a filter before Sluice that leaves metadata, with numbers, as
// jwt_authn and mcp do.
func claims(c *envoyconf.Config) {
	const filters = envoyconf.ConnectionManager + "/http_filters"
	c.Set(filters, append(c.Fragment(setClaims).([]any), c.Get(filters).([]any)...))
}

const setClaims = `
- name: set_metadata
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.filters.http.set_metadata.v3.Config
    metadata:
    - metadata_namespace: envoy.filters.http.jwt_authn
      value: {payload: {sub: ann, cost: 2.7, text: "3", plan: pro, staff: true, huge: 1e300, below: -1}}
    - metadata_namespace: envoy.filters.http.mcp
      value: {method: tools/call, params: {name: search}}
`

// TestExpressions: where an expression may stand, and what its values mean.
func TestExpressions(t *testing.T) {
	t.Parallel()
	const limits = `"limits": [{"algorithm": "gcra", "limit": 100, "window": "1h"}]`
	rule := func(name, members string, steps ...step) scenario {
		return limiting(name, members+`, `+limits, steps...)
	}
	matching := func(name, expr string, steps ...step) scenario {
		s := rule(name, "", steps...)
		s.rules = `{"name": "@", "match": {"path": {"prefix": "/@"}, "expr": "` + expr + `"}, ` + limits + `}`
		return s
	}
	const payload = `metadata.filter_metadata['envoy.filters.http.jwt_authn']['payload']`
	runScenarios(t, "", envoytest.Options{Edit: claims}, []scenario{
		matching("writes", `'x-plan' in request.headers && request.headers['x-plan'] == 'free' && request.method in ['POST', 'PUT']`,
			applied(99, "x-plan: free", ":method: POST"), applied(98, "x-plan: free", ":method: PUT"),
			passes("", "x-plan: free"), passes("", "x-plan: pro", ":method: POST"), passes("", ":method: POST")),
		matching("error", `request.headers['x-plan'] == 'free'`, passes(""), applied(99, "x-plan: free")),
		matching("nobool", `request.headers['x-plan']`, passes("", "x-plan: true")),
		matching("comment", `true // always`, applied(99, "")),
		matching("claim", payload+`['staff']`, applied(99, "")),
		matching("address", `source.address.startsWith('127.0.0.1:')`, applied(99, "")),
		keyed("key", `{"expr": "request.headers['x-team'] + '/' + request.method"}`, []string{"|a/GET", "|b/GET"},
			left(99, "", "x-team: a"), left(99, "", "x-team: b"), left(98, "", "x-team: a"), passes("")),
		keyed("tool", `{"expr": "metadata.filter_metadata['envoy.filters.http.mcp']['params']['name']"}`, []string{"|search"},
			left(99, ""), left(98, "")),
		keyed("null", `{"expr": "null", "default": "none"}`, []string{"|none"}, left(99, "")),
		keyed("count", `{"expr": "size(request.headers['x-list'])"}`, []string{"|3"}, left(99, "", "x-list: abc")),
		rule("cost", `"cost": {"expr": "`+payload+`['cost']", "default": 50}`, applied(98), applied(96)),
		rule("decimal", `"cost": {"expr": "`+payload+`['text']", "default": 50}`, applied(97)),
		rule("large", `"cost": {"expr": "`+payload+`['huge']", "default": 1, "max": 40}`, applied(60)),
		rule("negative", `"cost": {"expr": "`+payload+`['below']", "default": 30}`, applied(70)),
		rule("missing", `"cost": {"expr": "`+payload+`['none']", "default": 30}`, applied(70)),
		rule("header", `"cost": {"expr": "double(request.headers['x-cost']) * 2.0", "default": 1}`, applied(90, "x-cost: 5"), applied(89)),
		{
			name: "tier",
			rules: `{"name": "@", "match": {"path": {"prefix": "/@"}}, "limits_by": {
				"source": {"expr": "` + payload + `['plan'] + '-' + request.method"},
				"values": {"pro-GET": [{"algorithm": "gcra", "limit": 7, "window": "1h"}]}}}`,
			steps: []step{{want: map[string]string{"x-ratelimit-limit": "7"}}, passes("", ":method: POST")},
		},
	})
}

// TestAddresses: a match by networks, behind one trusted hop.
func TestAddresses(t *testing.T) {
	t.Parallel()
	var many []string
	for i := range 10_000 {
		many = append(many, fmt.Sprintf(`"10.%d.%d.0/24"`, i/256, i%256))
	}
	trustOne := func(c *envoyconf.Config) { c.Set(envoyconf.ConnectionManager+"/xff_num_trusted_hops", 1) }
	from := func(address string) string { return "x-forwarded-for: " + address }
	runScenarios(t, "", envoytest.Options{Edit: trustOne}, []scenario{
		{
			name: "office",
			rules: `{"name": "@.exempt", "match": {"path": {"prefix": "/@"}, "client_ip": ["198.51.100.0/24", "2001:db8:0f00::/40"]}, "exempt": true},
				{"name": "@", "match": {"path": {"prefix": "/@"}}, "limits": [{"algorithm": "gcra", "limit": 100, "window": "1h"}]}`,
			steps: []step{
				applied(99, from("203.0.113.7")),
				{headers: []string{from("198.51.100.255")}, state: "exempt:@.exempt"},
				{headers: []string{from("2001:db8:fff::1")}, state: "exempt:@.exempt"},
				applied(98, from("198.51.101.0")), applied(97, from("2001:db8:1000::1")),
			},
		},
		{
			name: "many",
			rules: `{"name": "@", "match": {"path": {"prefix": "/@"}, "client_ip": [` + strings.Join(many, ",") + `]},
				"limits": [{"algorithm": "gcra", "limit": 100, "window": "1h"}]}`,
			steps: []step{applied(99, from("10.39.15.255")), passes("", from("10.39.16.0")), applied(98, from("10.0.0.0"))},
		},
	})
}

// TestManyExpressions: a configuration with 200 expressions loads within a second,
// in each of the VMs that Envoy starts for it.
func TestManyExpressions(t *testing.T) {
	t.Parallel()
	load := func(expressions bool) time.Duration {
		var rules []string
		for i := range 200 {
			match := `{}`
			if expressions {
				match = fmt.Sprintf(`{"expr": "'x-plan' in request.headers && request.headers['x-plan'] == 'p%d' && request.method in ['POST', 'PUT']"}`, i)
			}
			rules = append(rules, fmt.Sprintf(`{"name": "r%d", "match": %s, "limits": [{"algorithm": "gcra", "limit": 100, "window": "1h"}]}`, i, match))
		}
		began := time.Now()
		e := start(t, `{"rules": [`+strings.Join(rules, ",")+`]}`, envoytest.Options{Redis: []string{}, Workers: 1})
		get(t, e.URL)
		e.Stop()
		return time.Since(began)
	}
	without, with := load(false), load(true)
	t.Logf("Envoy serves after %v, with expressions after %v", without, with)
	const vms = 3 // to try it, for the main thread, and for the worker
	if with-without > vms*time.Second {
		t.Errorf("200 expressions take %v to load %d times, want at most a second each", with-without, vms)
	}
}

// TestExpressionRefused: Envoy keeps the configuration it had, and the log says why.
func TestExpressionRefused(t *testing.T) {
	t.Parallel()
	log := envoytest.RefusedAtStart(t, envoytest.Options{Redis: []string{}, Plugin: `{"rules": [{"name": "r",
		"match": {"expr": "1) || (1"}, "limits": [{"algorithm": "gcra", "limit": 1, "window": "1s"}]}]}`})
	const want = `sluice: rules[0].match.expr: "1) || (1" is not an expression that Envoy compiles`
	if !strings.Contains(log, want) {
		t.Errorf("the log lacks %q:\n%s", want, log)
	}
}
