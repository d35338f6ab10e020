package e2e

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/envoytest"
)

// keyed is a scenario of one rule with this key.
type keyed struct {
	name, key  string
	identities []identity
	passes     []request // to which the rule does not apply
}

// identity is requests that count down together, and what Redis calls them.
type identity struct {
	stored   string
	requests []request
}

// scenario sends the requests of all identities in turns: the first of each, then
// the second of each.
func (k keyed) scenario() scenario {
	s := scenario{
		name: k.name, keys: []string{},
		rules: `{"name": "` + k.name + `", "match": {"path": {"prefix": "/` + k.name + `"}}, "key": [` + k.key + `],
			"limits": [{"algorithm": "gcra", "limit": 100, "window": "60m"}]}`,
	}
	for _, r := range k.passes {
		s.steps = append(s.steps, step{request: r, want: want{Outcome: "none", Limit: missing}})
	}
	for n, again := 0, true; again; n++ {
		again = false
		for _, id := range k.identities {
			if n < len(id.requests) {
				again = true
				s.steps = append(s.steps, step{
					request: id.requests[n],
					want:    want{Outcome: "allowed", Limit: "100", Remaining: fmt.Sprint(99 - n)},
				})
			}
		}
	}
	for _, id := range k.identities {
		s.keys = append(s.keys, "|"+id.stored+"}:gcra:1h")
	}
	return s
}

func runKeyed(t *testing.T, opts envoytest.Options, all []keyed, more ...scenario) {
	t.Helper()
	for _, k := range all {
		more = append(more, k.scenario())
	}
	runScenarios(t, "", opts, more)
}

// with is a request for the scenario's own path.
func with(headers ...string) request { return request{headers: headers} }

// longUser is a value that is too long for a key.
var longUser = strings.Repeat("u", 201)

// keys are keys of a rule, and the requests that are one identity to each.
var keys = []keyed{
	{name: "constant", key: `{"constant": "all"}`, identities: []identity{{stored: "all", requests: []request{{}, {}}}}},
	{name: "nokey", key: ``, identities: []identity{{stored: "", requests: []request{{}, {}}}}},
	{
		name: "header", key: `{"header": "X-User"}`,
		identities: []identity{
			{stored: "ann", requests: []request{with("x-user: ann"), with("x-user: ann"), with("x-user: ann", "x-user: ann")}},
			{stored: "%many", requests: []request{with("x-user: ann", "x-user: bob"), with("x-user: bob", "x-user: cy")}},
			{stored: "bob", requests: []request{with("x-user: bob")}},
		},
		passes: []request{{}},
	},
	{
		name: "default", key: `{"header": "x-user", "default": "nobody"}`,
		identities: []identity{
			{stored: "nobody", requests: []request{{}, with("x-user: nobody")}},
			{stored: "ann", requests: []request{with("x-user: ann")}},
		},
	},
	{
		name: "cookie", key: `{"cookie": "sid", "hash": false}`,
		identities: []identity{
			{stored: "a%20b", requests: []request{
				with("cookie: x=1; sid=a%20b; y=2"), with("cookie: sid=%61%20b"), with("cookie: x=1", "cookie: y=2; sid=a%20b"),
				with(`cookie: sid="\141 b"`), with(`cookie: sid="\a\040b"`),
			}},
			{stored: "%many", requests: []request{with("cookie: sid=c; sid=a%20b"), with("cookie: sid=c", "cookie: sid=d")}},
		},
		passes: []request{with("cookie: sidx=1"), {}},
	},
	{
		name: "first", key: `{"query": "key", "repeated": "first"}`,
		identities: []identity{{stored: "c", requests: paths("?key=c&key=a", "?key=c")}},
	},
	{
		name: "query", key: `{"query": "key"}`,
		identities: []identity{
			{stored: "a/b", requests: paths("?key=a/b", "?x=1&key=%61%2Fb", "?k%65y=a/b&key=a/b")},
			{stored: "%many", requests: paths("?key=c&key=a", "?key=%zz&key=a")},
		},
		passes: paths("?keys=1", ""),
	},
	{
		name: "path", key: `{"path": true}`,
		identities: []identity{
			{stored: "/path/a", requests: paths("/a", "/./%61?x", "//a", "/a%0A")},
			{stored: "/path/x:@", requests: paths("/x:@", "/x%3A%40")},
			{stored: "/path/a/", requests: paths("/a/")},
		},
	},
	{
		name: "segments", key: `{"path": {"segments": 2}}`,
		identities: []identity{
			{stored: "/segments/a", requests: paths("/a/x", "/a/y/z", "/a")},
			{stored: "/segments/b", requests: paths("/b/x")},
		},
	},
	{
		name: "method", key: `{"method": true}`,
		identities: []identity{
			{stored: "GET", requests: []request{{}, {}}},
			{stored: "POST", requests: []request{with(":method: POST")}},
		},
	},
	{
		name: "host", key: `{"host": true}`,
		identities: []identity{
			{stored: "a.example.com", requests: []request{with("Host: a.example.com"), with("Host: A.EXAMPLE.com:81")}},
		},
	},
	{
		name: "property", key: `{"property": ["request", "useragent"]}`,
		identities: []identity{
			{stored: "curl/8", requests: []request{with("user-agent: curl/8"), with("user-agent: curl/8")}},
		},
	},
	{
		name: "absentproperty", key: `{"property": ["connection", "uri_san_peer_certificate"]}`,
		passes: []request{{}},
	},
	{
		name: "bearer", key: `{"bearer": true, "hash": false}`,
		identities: []identity{
			{stored: "tok", requests: []request{
				with("authorization: Bearer tok"), with("authorization: bEARER   tok"), with("authorization: BEARER tok junk"),
			}},
			{stored: "%odd", requests: []request{with("authorization: Bearer ")}},
			{stored: "%many", requests: []request{with("authorization: Bearer a", "authorization: Bearer b")}},
			{stored: "other", requests: []request{with("authorization: Bearer other")}},
		},
		passes: []request{{}, with("authorization: Basic tok")},
	},
	{
		name: "several", key: `{"header": "a"}, {"method": true}, {"header": "b"}`,
		identities: []identity{
			{stored: "1|GET|2", requests: []request{with("a: 1", "b: 2"), with("a: 1", "b: 2")}},
			{stored: "1%7CGET|GET|2", requests: []request{with("a: 1|GET", "b: 2")}},
		},
		passes: []request{with("a: 1")},
	},
	{
		name: "encoded", key: `{"header": "x-user"}`,
		identities: []identity{{stored: "a%7Cb%7Bc%7Dd%25e%20f", requests: []request{with("x-user: a|b{c}d%e f")}}},
	},
	{
		name: "hash", key: `{"header": "authorization", "hash": true}`,
		identities: []identity{{
			stored:   digest("Bearer secret")[:40],
			requests: []request{with("authorization: Bearer secret"), with("authorization: Bearer secret")},
		}},
	},
	{
		name: "long", key: `{"header": "x-user"}`,
		identities: []identity{
			{stored: digest(longUser), requests: []request{with("x-user: " + longUser), with("x-user: " + longUser)}},
			{stored: longUser[:200], requests: []request{with("x-user: " + longUser[:200])}},
		},
	},
}

func TestKeys(t *testing.T) {
	t.Parallel()
	runKeyed(t, envoytest.Options{Edit: rawPaths}, keys)
}

func digest(s string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(s))) }

// TestClientIP: the address is Envoy's, behind as many trusted hops as it knows.
func TestClientIP(t *testing.T) {
	t.Parallel()
	trustOne := func(c *envoyconf.Config) { c.Set(envoyconf.ConnectionManager+"/xff_num_trusted_hops", 1) }
	forwarded := func(addresses ...string) (requests []request) {
		for _, a := range addresses {
			requests = append(requests, with("x-forwarded-for: "+a))
		}
		return requests
	}
	runKeyed(t, envoytest.Options{Edit: trustOne}, []keyed{
		{
			name: "address", key: `{"client_ip": true}`,
			identities: []identity{
				{stored: "127.0.0.1", requests: []request{{}, {}}},
				{stored: "203.0.113.7", requests: forwarded("203.0.113.7", "198.51.100.1, 203.0.113.7")},
				{stored: "2001:db8::1", requests: forwarded("2001:db8::1", "2001:0DB8:0::1")},
			},
		},
		{
			name: "prefix", key: `{"client_ip": {"v4_prefix": 24, "v6_prefix": 64}}`,
			identities: []identity{
				{stored: "203.0.113.0/24", requests: forwarded("203.0.113.7", "203.0.113.255")},
				{stored: "203.0.112.0/24", requests: forwarded("203.0.112.7")},
				{stored: "2001:db8::/64", requests: forwarded("2001:db8::1", "2001:db8:0:0:ffff::1")},
			},
		},
	})
}

// TestForgedAddressIsIgnored: without trusted hops a header changes nothing.
func TestForgedAddressIsIgnored(t *testing.T) {
	t.Parallel()
	runKeyed(t, envoytest.Options{}, []keyed{{
		name: "address", key: `{"client_ip": true}`,
		identities: []identity{{
			stored:   "127.0.0.1",
			requests: []request{with("x-forwarded-for: 203.0.113.7"), with("x-forwarded-for: 203.0.113.8")},
		}},
	}})
}

// setMetadata puts filters before Sluice that leave metadata, as jwt_authn does.
const setMetadata = `
- name: set_metadata
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.filters.http.set_metadata.v3.Config
    metadata:
    - metadata_namespace: envoy.filters.http.jwt_authn
      value: {payload: {sub: ann, tier: 2}}
- name: header_to_metadata
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.filters.http.header_to_metadata.v3.Config
    request_rules:
    - header: x-tenant
      on_header_present: {metadata_namespace: tenants, key: name}
`

func TestMetadataKeys(t *testing.T) {
	t.Parallel()
	before := func(c *envoyconf.Config) {
		const filters = envoyconf.ConnectionManager + "/http_filters"
		c.Set(filters, append(c.Fragment(setMetadata).([]any), c.Get(filters).([]any)...))
	}
	runKeyed(t, envoytest.Options{Edit: before}, []keyed{
		{
			name: "claim", key: `{"metadata": ["envoy.filters.http.jwt_authn", "payload", "sub"]}`,
			identities: []identity{{stored: "ann", requests: []request{{}, {}}}},
		},
		{
			name: "tenant", key: `{"metadata": ["tenants", "name"]}`,
			identities: []identity{
				{stored: "a", requests: []request{with("x-tenant: a"), with("x-tenant: a")}},
				{stored: "b", requests: []request{with("x-tenant: b")}},
			},
			passes: []request{{}},
		},
	}, scenario{
		name: "tiers",
		rules: `{"name": "tiers", "match": {"path": {"prefix": "/tiers"}}, "limits_by": {
			"source": {"metadata": ["envoy.filters.http.jwt_authn", "payload", "tier"]},
			"values": {"1": [{"algorithm": "gcra", "limit": 1, "window": "1h"}],
				"2": [{"algorithm": "gcra", "limit": 2, "window": "1h"}]}}}`,
		steps: []step{{want: want{Limit: "2"}}},
	})
}
