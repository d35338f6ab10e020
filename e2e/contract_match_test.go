package e2e

import (
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

const manyLimits = `"limits": [{"algorithm": "gcra", "limit": 1000, "window": "1h"}]`

// matching is a scenario of one rule: the requests to which it applies, and those to
// which it does not.
type matching struct {
	name, match     string
	applies, passes []request
}

func (m matching) scenario() scenario {
	s := scenario{name: m.name, rules: `{"name": "` + m.name + `", "match": {` + m.match + `}, ` + manyLimits + `}`}
	for _, r := range m.applies {
		s.steps = append(s.steps, step{request: r, want: want{Outcome: "allowed", Limit: "1000"}})
	}
	for _, r := range m.passes {
		s.steps = append(s.steps, step{request: r, want: want{Outcome: "none", Limit: missing}})
	}
	return s
}

// paths are requests without headers of their own.
func paths(all ...string) (requests []request) {
	for _, path := range all {
		requests = append(requests, request{path: path})
	}
	return requests
}

// rawPaths leaves paths as clients write them, as Envoy does by default: the rules
// have to read them right without its help.
func rawPaths(c *envoyconf.Config) {
	c.Set(envoyconf.ConnectionManager+"/normalize_path", false)
	c.Set(envoyconf.ConnectionManager+"/merge_slashes", false)
	c.Set(envoyconf.ConnectionManager+"/path_with_escaped_slashes_action", "KEEP_UNCHANGED")
}

// matchings are matches, with requests to which each applies and others.
var matchings = []matching{
	{
		name: "exact", match: `"path": "/exact/a/b"`,
		applies: paths("/a/b", "/a/b?x=/c", "/a//b", "/./a/b", "/a/c/../b",
			"/a/%62", "/%61/%2e/b", "//a/./x/%2e%2E/b", "/x/..//%61/b"),
		passes: paths("/a/b/", "/a/bc", "/a/B", "/a%2Fb", "/a", "/c?/a/b"),
	},
	{
		name: "exobject", match: `"path": {"exact": "/exobject/a"}`,
		applies: paths("/a"), passes: paths("/a/b"),
	},
	{
		name: "pre", match: `"path": {"prefix": "/pre/a"}`,
		applies: paths("/a", "/ab/c", "//a", "/b/../a"), passes: paths("/b", "/a/../b"),
	},
	{
		name: "suffix", match: `"path": {"suffix": "suffix/end"}`,
		applies: paths("/end", "/end?x"), passes: paths("/end/x"),
	},
	{
		name: "contains", match: `"path": {"contains": "contains/x/mid"}`,
		applies: paths("/x/middle"), passes: paths("/x/mi/d"),
	},
	{
		name: "regex", match: `"path": {"regex": "^/regex/[0-9]+$"}`,
		applies: paths("/123", "/%31"), passes: paths("/12a", "/"),
	},
	{
		name: "unmatched", match: `"path": "/elsewhere"`,
		passes: paths(""),
	},
	{
		name: "host", match: `"path": {"prefix": "/host"}, "host": "api.example.com"`,
		applies: []request{
			{headers: []string{"Host: api.example.com"}},
			{headers: []string{"Host: API.Example.COM"}},
			{headers: []string{"Host: api.example.com:8443"}},
		},
		passes: []request{{headers: []string{"Host: example.com"}}, {}},
	},
	{
		name: "domain", match: `"path": {"prefix": "/domain"}, "host": {"suffix": ".example.com"}`,
		applies: []request{{headers: []string{"Host: a.b.EXAMPLE.com:80"}}},
		passes:  []request{{headers: []string{"Host: example.com"}}},
	},
	{
		name: "methods", match: `"path": {"prefix": "/methods"}, "methods": ["GET", "POST"]`,
		applies: []request{{}, {headers: []string{":method: POST"}}},
		passes:  []request{{headers: []string{":method: PUT"}}, {headers: []string{":method: DELETE"}}},
	},
	{
		name:  "headers",
		match: `"path": {"prefix": "/headers"}, "headers": {"x-plan": "pro", "X-Region": {"prefix": "eu-"}}`,
		applies: []request{
			{headers: []string{"x-plan: pro", "x-region: eu-1"}},
			// Of two values upstreams take either, so that the condition is unknown, and the rule applies.
			{headers: []string{"x-plan: pro", "x-plan: free", "x-region: eu-1"}},
			{headers: []string{"x-plan: free", "x-plan: pro", "x-region: eu-1"}},
		},
		passes: []request{
			{headers: []string{"x-plan: pro"}},
			{headers: []string{"x-plan: pro", "x-region: us"}},
			{headers: []string{"x-plan: free", "x-region: eu-1"}},
			{headers: []string{"x-plan: Pro", "x-region: eu-1"}},
		},
	},
	{
		name:    "having",
		match:   `"path": {"prefix": "/having"}, "headers": {"x-plan": {"present": true}, "x-debug": {"present": false}}`,
		applies: []request{{headers: []string{"x-plan: a"}}, {headers: []string{"x-plan: "}}},
		passes:  []request{{}, {headers: []string{"x-plan: a", "x-debug: 1"}}},
	},
	{
		name:    "except",
		match:   `"path": {"prefix": "/except"}, "not": {"path": {"prefix": "/except/internal"}, "methods": ["GET"]}`,
		applies: []request{{path: "/x"}, {path: "/internal", headers: []string{":method: POST"}}},
		passes:  paths("/internal", "/x/..//%69nternal"),
	},
	{
		name: "noneof",
		match: `"path": {"prefix": "/noneof"}, "not": [{"path": {"prefix": "/noneof/a"}},
			{"headers": {"x-plan": "vip"}, "methods": ["GET"]}]`,
		applies: []request{{path: "/b"}, {headers: []string{":method: POST", "x-plan: vip"}}},
		passes:  []request{{path: "/a"}, {path: "/x/..//%61"}, {headers: []string{"x-plan: vip"}}},
	},
}

func TestMatchers(t *testing.T) {
	t.Parallel()
	var scenarios []scenario
	for _, m := range matchings {
		scenarios = append(scenarios, m.scenario())
	}
	runScenarios(t, "", envoytest.Options{Edit: rawPaths}, scenarios)
}

// TestRequestIsNotChanged: rules read a normal form, the upstream gets what came.
func TestRequestIsNotChanged(t *testing.T) {
	t.Parallel()
	s := start(t, `{`+patient+`"rules": [{"name": "r", "match": {"path": "/api/a"}, `+manyLimits+`}]}`,
		envoytest.Options{Edit: rawPaths})
	const target = "/x/..//%61pi/a?q=%61"
	r := get(t, s.URL+target, "host: A.example.com:1")
	if r.header.Get("x-ratelimit-limit") != "1000" {
		t.Error("the rule did not apply")
	}
	got := s.upstream.Requests()[0]
	testenv.Same(t, "the upstream's target", got.RequestURI, target)
	testenv.Same(t, "the upstream's host", got.Host, "A.example.com:1")
}
