package e2e

import (
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/envoytest"
)

// applies and passes are steps that a rule applies to, or not.
func applies(path string, headers ...string) step {
	return step{path: path, headers: headers, state: "allowed", want: map[string]string{"x-ratelimit-limit": "1000"}}
}

func passes(path string, headers ...string) step {
	return step{path: path, headers: headers, state: "none", want: map[string]string{"x-ratelimit-limit": ""}}
}

const manyLimits = `"limits": [{"algorithm": "gcra", "limit": 1000, "window": "1h"}]`

// matching is a scenario of one rule with this match.
func matching(name, match string, steps ...step) scenario {
	return scenario{name: name, rules: `{"name": "@", "match": {` + match + `}, ` + manyLimits + `}`, steps: steps}
}

// rawPaths leaves paths as clients write them, as Envoy does by default: the rules
// have to read them right without its help.
func rawPaths(c *envoyconf.Config) {
	c.Set(envoyconf.ConnectionManager+"/normalize_path", false)
	c.Set(envoyconf.ConnectionManager+"/merge_slashes", false)
	c.Set(envoyconf.ConnectionManager+"/path_with_escaped_slashes_action", "KEEP_UNCHANGED")
}

func TestMatchers(t *testing.T) {
	t.Parallel()
	runScenarios(t, "", envoytest.Options{Edit: rawPaths}, []scenario{
		matching("exact", `"path": "/@/a/b"`,
			applies("/a/b"), applies("/a/b?x=/c"), applies("/a//b"), applies("/./a/b"), applies("/a/c/../b"),
			applies("/a/%62"), applies("/%61/%2e/b"), applies("//a/./x/%2e%2E/b"), applies("/x/..//%61/b"),
			passes("/a/b/"), passes("/a/bc"), passes("/a/B"), passes("/a%2Fb"), passes("/a"), passes("/c?/a/b")),
		matching("exobject", `"path": {"exact": "/@/a"}`, applies("/a"), passes("/a/b")),
		matching("pre", `"path": {"prefix": "/@/a"}`,
			applies("/a"), applies("/ab/c"), applies("//a"), applies("/b/../a"), passes("/b"), passes("/a/../b")),
		matching("suffix", `"path": {"suffix": "@/end"}`, applies("/end"), applies("/end?x"), passes("/end/x")),
		matching("contains", `"path": {"contains": "@/x/mid"}`, applies("/x/middle"), passes("/x/mi/d")),
		matching("regex", `"path": {"regex": "^/@/[0-9]+$"}`, applies("/123"), applies("/%31"), passes("/12a"), passes("/")),
		matching("host", `"path": {"prefix": "/@"}, "host": "api.example.com"`,
			applies("", "Host: api.example.com"), applies("", "Host: API.Example.COM"), applies("", "Host: api.example.com:8443"),
			passes("", "Host: example.com"), passes("")),
		matching("domain", `"path": {"prefix": "/@"}, "host": {"suffix": ".example.com"}`,
			applies("", "Host: a.b.EXAMPLE.com:80"), passes("", "Host: example.com")),
		matching("methods", `"path": {"prefix": "/@"}, "methods": ["GET", "POST"]`,
			applies(""), applies("", ":method: POST"), passes("", ":method: PUT"), passes("", ":method: DELETE")),
		matching("headers", `"path": {"prefix": "/@"}, "headers": {"x-plan": "pro", "X-Region": {"prefix": "eu-"}}`,
			applies("", "x-plan: pro", "x-region: eu-1"), passes("", "x-plan: pro"), passes("", "x-plan: pro", "x-region: us"),
			passes("", "x-plan: free", "x-region: eu-1"), passes("", "x-plan: Pro", "x-region: eu-1"),
			applies("", "x-plan: pro", "x-plan: free", "x-region: eu-1"), passes("", "x-plan: free", "x-plan: pro", "x-region: eu-1")),
		matching("having", `"path": {"prefix": "/@"}, "headers": {"x-plan": {"present": true}, "x-debug": {"present": false}}`,
			applies("", "x-plan: a"), applies("", "x-plan: "), passes(""), passes("", "x-plan: a", "x-debug: 1")),
		matching("except", `"path": {"prefix": "/@"}, "not": {"path": {"prefix": "/@/internal"}, "methods": ["GET"]}`,
			applies("/x"), applies("/internal", ":method: POST"), passes("/internal"), passes("/x/..//%69nternal")),
		{
			name: "unmatched", rules: `{"name": "@", "match": {"path": "/elsewhere"}, ` + manyLimits + `}`,
			steps: []step{passes("")},
		},
	})
}

// TestRequestIsNotChanged: rules read a normal form, the upstream gets what came.
func TestRequestIsNotChanged(t *testing.T) {
	t.Parallel()
	s := start(t, `{`+patient+`"rules": [{"name": "r", "match": {"path": "/api/a"}, `+manyLimits+`}]}`, envoytest.Options{})
	const target = "/x/..//%61pi/a?q=%61"
	r := get(t, s.URL+target, "host: A.example.com:1")
	if r.header.Get("x-ratelimit-limit") != "1000" {
		t.Error("the rule did not apply")
	}
	if got := s.upstream.Requests()[0]; got.RequestURI != target || got.Host != "A.example.com:1" {
		t.Errorf("the upstream got %s of %s, want %s of A.example.com:1", got.RequestURI, got.Host, target)
	}
}
