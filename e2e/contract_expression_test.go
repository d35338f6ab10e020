package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/envoytest"
)

// withClaims puts a filter before Sluice that leaves metadata, with numbers, as
// jwt_authn and mcp do.
var withClaims = before(setClaims)

const setClaims = `
- name: set_metadata
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.filters.http.set_metadata.v3.Config
    metadata:
    - metadata_namespace: envoy.filters.http.jwt_authn
      value: {payload: {sub: ann, limit: 5, cost: 2.7, text: "3", plan: pro, staff: true, huge: 1e300, below: -1}}
    - metadata_namespace: envoy.filters.http.mcp
      value: {method: tools/call, params: {name: search}}
`

// payload is the claims of that filter, as expressions read them.
const payload = `metadata.filter_metadata['envoy.filters.http.jwt_authn']['payload']`

const hundred = `"limits": [{"algorithm": "gcra", "limit": 100, "window": "1h"}]`

// expressed is a rule with a match by an expression, the requests that it holds for,
// and those that it does not hold for.
type expressed struct {
	name, expr string
	holds      []request
	holdsNot   []request
}

func (e expressed) scenario() scenario {
	s := scenario{
		name: e.name,
		rules: fmt.Sprintf(`{"name": %q, "match": {"path": {"prefix": "/%s"}, "expr": "%s"}, %s}`,
			e.name, e.name, e.expr, hundred),
	}
	for i, r := range e.holds {
		s.steps = append(s.steps, step{request: r, want: want{Outcome: "allowed", Remaining: fmt.Sprint(99 - i)}})
	}
	for _, r := range e.holdsNot {
		s.steps = append(s.steps, step{request: r, want: want{Outcome: "none", Limit: missing}})
	}
	return s
}

// TestMatchByExpression: true holds, and nothing else.
func TestMatchByExpression(t *testing.T) {
	t.Parallel()
	free, pro, post := "x-plan: free", "x-plan: pro", ":method: POST"
	var all []scenario
	for _, e := range []expressed{
		{
			name: "writes", expr: `'x-plan' in request.headers && request.headers['x-plan'] == 'free' && request.method in ` +
				`['POST', 'PUT']`,
			holds:    []request{{headers: []string{free, post}}, {headers: []string{free, ":method: PUT"}}},
			holdsNot: []request{{headers: []string{free}}, {headers: []string{pro, post}}, {headers: []string{post}}},
		},
		{
			name: "error", expr: `request.headers['x-plan'] == 'free'`,
			holds: []request{{headers: []string{free}}}, holdsNot: []request{{}},
		},
		{name: "nobool", expr: `request.headers['x-plan']`, holdsNot: []request{{headers: []string{"x-plan: true"}}}},
		{name: "comment", expr: `true // always`, holds: []request{{}}},
		{name: "claim", expr: payload + `['staff']`, holds: []request{{}}},
		{name: "peer", expr: `source.address.startsWith('127.0.0.1:')`, holds: []request{{}}},
		{
			name: "graphql", expr: `request.headers['x-operation'].startsWith('mutation')`,
			holds:    []request{{headers: []string{"x-operation: mutation addItem"}}},
			holdsNot: []request{{headers: []string{"x-operation: query"}}, {}},
		},
	} {
		all = append(all, e.scenario())
	}
	runScenarios(t, "", envoytest.Options{Edit: withClaims}, all)
}

// TestKeyByExpression: the text of a value; null and errors are absent.
func TestKeyByExpression(t *testing.T) {
	t.Parallel()
	team := func(name string) request { return request{headers: []string{"x-team: " + name}} }
	runKeyed(t, envoytest.Options{Edit: withClaims}, []keyed{
		{
			name: "joined", key: `{"expr": "request.headers['x-team'] + '/' + request.method"}`,
			identities: []identity{
				{stored: "a/GET", requests: []request{team("a"), team("a")}},
				{stored: "b/GET", requests: []request{team("b")}},
			},
			passes: []request{{}},
		},
		{
			name: "tool", key: `{"expr": "metadata.filter_metadata['envoy.filters.http.mcp']['params']['name']"}`,
			identities: []identity{{stored: "search", requests: []request{{}, {}}}},
		},
		{
			name: "null", key: `{"expr": "null", "default": "none"}`,
			identities: []identity{{stored: "none", requests: []request{{}}}},
		},
		{
			name: "number", key: `{"expr": "size(request.headers['x-team'])"}`,
			identities: []identity{{stored: "3", requests: []request{team("abc"), team("xyz")}}},
		},
	})
}

// TestAmountsByExpression: costs, tiers, and limits that come with the request.
func TestAmountsByExpression(t *testing.T) {
	t.Parallel()
	costing := func(name, cost string, remaining ...string) scenario {
		s := limiting(name, `"cost": {`+cost+`}, `+hundred)
		for _, r := range remaining {
			s.steps = append(s.steps, step{want: want{Outcome: "allowed", Remaining: r}})
		}
		return s
	}
	runScenarios(t, "", envoytest.Options{Edit: withClaims}, []scenario{
		costing("rounded", `"expr": "`+payload+`['cost']", "default": 50`, "98", "96"),
		costing("decimal", `"expr": "`+payload+`['text']", "default": 50`, "97"),
		costing("large", `"expr": "`+payload+`['huge']", "default": 1, "max": 40`, "60"),
		costing("negative", `"expr": "`+payload+`['below']", "default": 30`, "70"),
		costing("absent", `"expr": "`+payload+`['none']", "default": 30`, "70"),
		{
			name: "tier",
			rules: `{"name": "tier", "match": {"path": {"prefix": "/tier"}}, "limits_by": {
				"source": {"expr": "` + payload + `['plan'] + '-' + request.method"},
				"values": {"pro-GET": [{"algorithm": "gcra", "limit": 7, "window": "1h"}]}}}`,
			steps: []step{
				{want: want{Outcome: "allowed", Limit: "7"}},
				{request: request{headers: []string{":method: POST"}}, want: want{Outcome: "none", Limit: missing}},
			},
		},
	})
}

// sizes are the algorithms whose limit comes with a header, and how long a limit of
// 1, which is used up, takes to be restored.
var sizes = map[string]string{
	"fixed":   `"algorithm": "fixed_window", "anchor": "first_request"`,
	"log":     `"algorithm": "sliding_window_log"`,
	"counter": `"algorithm": "sliding_window_counter"`,
	"tokens":  `"algorithm": "token_bucket"`,
	"leaky":   `"algorithm": "leaky_bucket"`,
	"gcra":    `"algorithm": "gcra"`,
}

// TestLimitsThatComeWithTheRequest: each request has its own, and what was used
// counts for the next, whatever its limit is.
func TestLimitsThatComeWithTheRequest(t *testing.T) {
	t.Parallel()
	with := func(limit string) request { return request{headers: []string{"x-limit: " + limit}} }
	var all []scenario
	for name, algorithm := range sizes {
		all = append(all, limiting(
			name, `"key": [{"constant": "k"}], "limits": [{`+algorithm+`,
			"limit": {"header": "x-limit", "default": 3, "max": 10}, "window": "366d"}]`,
			step{want: want{Outcome: "allowed", Limit: "3", Remaining: "2"}},
			step{request: with("5"), want: want{Outcome: "allowed", Limit: "5", Remaining: "3"}},
			step{request: with("2"), want: want{
				Status: http.StatusTooManyRequests, Outcome: "limited:" + name,
				Limit: "2", Remaining: "0",
			}},
			step{request: with("2"), want: want{Status: http.StatusTooManyRequests, Limit: "2", Remaining: "0"}}, // remembered
			step{request: with("99"), want: want{Outcome: "allowed", Limit: "10", Remaining: "7"}},
			step{request: with("many"), want: want{Status: http.StatusTooManyRequests, Limit: "3"}},
			step{request: with("0"), want: want{
				Status: http.StatusTooManyRequests, Outcome: "limited:" + name, Limit: "0", Remaining: "0", RetryAfter: missing,
			}},
			step{request: with("4"), want: want{Outcome: "allowed", Limit: "4", Remaining: "0"}},
		))
	}
	all = append(
		all,
		limiting("claimed", `"limits": [{"algorithm": "gcra", `+
			`"limit": {"metadata": ["envoy.filters.http.jwt_authn", "payload", "limit"], "default": 1, "max": 100}, `+
			`"window": "1h"}]`,
			step{want: want{Outcome: "allowed", Limit: "5", Remaining: "4"}}),
		limiting("textual", `"limits": [{"algorithm": "gcra", `+
			`"limit": {"metadata": ["envoy.filters.http.jwt_authn", "payload", "text"], "default": 1, "max": 100}, `+
			`"window": "1h"}]`,
			step{want: want{Outcome: "allowed", Limit: "3", Remaining: "2"}}),
		limiting("bursting", `"limits": [{"algorithm": "gcra", "limit": 10, "window": "1h",
			"burst": {"expr": "request.method == 'GET' ? 20 : 0", "default": 5, "max": 50}}]`,
			step{want: want{Outcome: "allowed", Limit: "20", Remaining: "19", Reset: "360"}},
			step{
				request: request{headers: []string{":method: POST"}},
				want:    want{Status: http.StatusTooManyRequests, Limit: "0", RetryAfter: missing},
			}),
		limiting("zero", `"limits": [{"algorithm": "gcra", "limit": 0, "window": "1h"}]`,
			step{want: want{
				Status: http.StatusTooManyRequests, Outcome: "limited:zero", Limit: "0", Remaining: "0",
				RetryAfter: missing,
			}}),
		limiting("weights", `"cost": 2, "limits": [
			{"algorithm": "gcra", "limit": 100, "window": "1h", "name": "units"},
			{"algorithm": "fixed_window", "anchor": "first_request", "limit": 10, "window": "1d", "cost": 1,
				"name": "requests"}]`,
			step{want: want{Outcome: "allowed", RateLimit: `"units";r=98;t=3528, "requests";r=9;t=86400`}}),
	)
	runScenarios(t, bothHeaders, envoytest.Options{Edit: withClaims}, all)
}

// TestAddresses: a match by networks, behind one trusted hop.
func TestAddresses(t *testing.T) {
	t.Parallel()
	var many []string
	for i := range 10_000 {
		many = append(many, fmt.Sprintf(`"10.%d.%d.0/24"`, i/256, i%256))
	}
	trustOne := func(c *envoyconf.Config) { c.Set(envoyconf.ConnectionManager+"/xff_num_trusted_hops", 1) }
	from := func(address string) request { return request{headers: []string{"x-forwarded-for: " + address}} }
	exempt, none := want{Outcome: "exempt:office.exempt"}, want{Outcome: "none"}
	runScenarios(t, "", envoytest.Options{Edit: trustOne}, []scenario{
		{
			name: "office",
			rules: `{"name": "office.exempt", "exempt": true,
					"match": {"path": {"prefix": "/office"}, "client_ip": ["198.51.100.0/24", "2001:db8:0f00::/40"]}},
				{"name": "office", "match": {"path": {"prefix": "/office"}}, ` + hundred + `}`,
			steps: []step{
				{request: from("203.0.113.7"), want: want{Outcome: "allowed", Remaining: "99"}},
				{request: from("198.51.100.255"), want: exempt},
				{request: from("2001:db8:fff::1"), want: exempt},
				{request: from("198.51.101.0"), want: want{Outcome: "allowed", Remaining: "98"}},
				{request: from("2001:db8:1000::1"), want: want{Outcome: "allowed", Remaining: "97"}},
			},
		},
		{
			name: "many",
			rules: `{"name": "many", "match": {"path": {"prefix": "/many"}, "client_ip": [` + strings.Join(many, ",") + `]},
				` + hundred + `}`,
			steps: []step{
				{request: from("10.39.15.255"), want: want{Outcome: "allowed", Remaining: "99"}},
				{request: from("10.39.16.0"), want: none},
				{request: from("10.0.0.0"), want: want{Outcome: "allowed", Remaining: "98"}},
			},
		},
	})
}

// TestExpressionRefused: Envoy refuses a configuration whose text it does not
// compile, and the log says which.
func TestExpressionRefused(t *testing.T) {
	t.Parallel()
	log := envoytest.RefusedAtStart(t, envoytest.Options{Redis: []string{}, Plugin: `{"rules": [{"name": "r",
		"match": {"expr": "1) || (1"}, ` + hundred + `}]}`})
	const want = `sluice: rules[0].match.expr: "1) || (1" is not an expression that Envoy compiles`
	if !strings.Contains(log, want) {
		t.Errorf("the log lacks %q:\n%s", want, log)
	}
}
