package e2e

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/envoytest"
)

// left is a step after which this much remains of 100: requests of one identity
// count down together.
func left(remaining int, path string, headers ...string) step {
	return step{
		path: path, headers: headers, state: "allowed",
		want: map[string]string{"x-ratelimit-remaining": fmt.Sprint(remaining)},
	}
}

// keyed is a scenario of one rule with this key.
func keyed(name, key string, keys []string, steps ...step) scenario {
	for i := range keys {
		keys[i] += "}:gcra:1h"
	}
	return scenario{
		name: name, keys: keys, steps: steps,
		rules: `{"name": "@", "match": {"path": {"prefix": "/@"}}, "key": [` + key + `],
			"limits": [{"algorithm": "gcra", "limit": 100, "window": "60m"}]}`,
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	longUser := strings.Repeat("u", 201)
	runScenarios(t, "", envoytest.Options{Edit: rawPaths}, []scenario{
		keyed("constant", `{"constant": "all"}`, []string{"|all"}, left(99, ""), left(98, "")),
		keyed("nokey", ``, []string{"|"}, left(99, ""), left(98, "")),
		keyed("header", `{"header": "X-User"}`, []string{"|ann", "|bob"},
			left(99, "", "x-user: ann"), left(99, "", "x-user: bob"), left(98, "", "x-user: ann"), passes(""),
			left(97, "", "x-user: ann", "x-user: bob")),
		keyed("default", `{"header": "x-user", "default": "nobody"}`, []string{"|nobody", "|ann"},
			left(99, ""), left(98, "", "x-user: nobody"), left(99, "", "x-user: ann")),
		keyed("cookie", `{"cookie": "sid"}`, []string{"|a%20b", "|c"},
			left(99, "", "cookie: x=1; sid=a%20b; y=2"), left(98, "", "cookie: sid=%61%20b"),
			left(99, "", "cookie: sid=c; sid=a%20b"), left(97, "", "cookie: x=1", "cookie: y=2; sid=a%20b"), passes("", "cookie: sidx=1"), passes("")),
		keyed("query", `{"query": "key"}`, []string{"|a/b", "|c"},
			left(99, "?key=a/b"), left(98, "?x=1&key=%61%2Fb&key=c"), left(99, "?key=c&key=a"),
			left(97, "?k%65y=a/b"), passes("?keys=1"), passes("")),
		keyed("path", `{"path": true}`, []string{"|/path/a", "|/path/a/"},
			left(99, "/a"), left(98, "/./%61?x"), left(99, "/a/"), left(97, "//a")),
		keyed("segments", `{"path": {"segments": 2}}`, []string{"|/segments/a", "|/segments/b"},
			left(99, "/a/x"), left(98, "/a/y/z"), left(99, "/b/x"), left(97, "/a")),
		keyed("method", `{"method": true}`, []string{"|GET", "|POST"},
			left(99, ""), left(99, "", ":method: POST"), left(98, "")),
		keyed("host", `{"host": true}`, []string{"|a.example.com"},
			left(99, "", "Host: a.example.com"), left(98, "", "Host: A.EXAMPLE.com:81")),
		keyed("property", `{"property": ["request", "useragent"]}`, []string{"|curl/8"},
			left(99, "", "user-agent: curl/8"), left(98, "", "user-agent: curl/8")),
		keyed("absentproperty", `{"property": ["connection", "uri_san_peer_certificate"]}`, []string{}, passes("")),
		keyed("several", `{"header": "a"}, {"method": true}, {"header": "b"}`, []string{"|1|GET|2", "|1%7CGET|GET|2"},
			left(99, "", "a: 1", "b: 2"), left(99, "", "a: 1|GET", "b: 2"), left(98, "", "a: 1", "b: 2"), passes("", "a: 1")),
		keyed("encoded", `{"header": "x-user"}`, []string{"|a%7Cb%7Bc%7Dd%25e%20f"}, left(99, "", "x-user: a|b{c}d%e f")),
		keyed("hash", `{"header": "authorization", "hash": true}`, []string{"|" + digest("Bearer secret")[:40]},
			left(99, "", "authorization: Bearer secret"), left(98, "", "authorization: Bearer secret")),
		keyed("long", `{"header": "x-user"}`, []string{"|" + digest(longUser), "|" + longUser[:200]},
			left(99, "", "x-user: "+longUser), left(98, "", "x-user: "+longUser), left(99, "", "x-user: "+longUser[:200])),
	})
}

func digest(s string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(s))) }

// TestEachAlgorithmHasItsKey: one key for each limit, named as design says, that
// expires.
func TestEachAlgorithmHasItsKey(t *testing.T) {
	t.Parallel()
	s := start(t, `{"redis": {"cluster": "redis", "key_prefix": "my", "timeout": "10s"}, "rules": [{"name": "r", "key": [], "limits": [
		{"algorithm": "fixed_window", "limit": 100, "window": "90s"},
		{"algorithm": "sliding_window_log", "limit": 100, "window": "1500ms"},
		{"algorithm": "sliding_window_counter", "limit": 100, "window": "120s"},
		{"algorithm": "token_bucket", "limit": 100, "window": "24h"},
		{"algorithm": "leaky_bucket", "limit": 100, "window": "3600s"},
		{"algorithm": "gcra", "limit": 100, "window": "60s"}]}]}`, envoytest.Options{})
	get(t, s.URL)
	want := []string{
		"my:{r|}:fixed_window:1m30s", "my:{r|}:gcra:1m", "my:{r|}:leaky_bucket:1h",
		"my:{r|}:sliding_window_counter:2m", "my:{r|}:sliding_window_log:1s500ms", "my:{r|}:token_bucket:1d",
	}
	got := s.keys(t)
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("keys\n%q, want\n%q", got, want)
	}
	for _, key := range got {
		if left, err := s.client.PTTL(ctx, key).Result(); err != nil || left <= 0 {
			t.Errorf("%s lives for %v, %v; want it to expire", key, left, err)
		}
	}
}

// TestClientIP: the address is Envoy's, behind as many trusted hops as it knows.
func TestClientIP(t *testing.T) {
	t.Parallel()
	trustOne := func(c *envoyconf.Config) { c.Set(envoyconf.ConnectionManager+"/xff_num_trusted_hops", 1) }
	runScenarios(t, "", envoytest.Options{Edit: trustOne}, []scenario{
		keyed("address", `{"client_ip": true}`, []string{"|127.0.0.1", "|203.0.113.7", "|2001:db8::1"},
			left(99, ""), left(99, "", "x-forwarded-for: 203.0.113.7"), left(98, "", "x-forwarded-for: 198.51.100.1, 203.0.113.7"),
			left(99, "", "x-forwarded-for: 2001:db8::1"), left(98, "", "x-forwarded-for: 2001:0DB8:0::1"), left(98, "")),
		keyed("prefix", `{"client_ip": {"v4_prefix": 24, "v6_prefix": 64}}`, []string{"|203.0.113.0/24", "|203.0.112.0/24", "|2001:db8::/64"},
			left(99, "", "x-forwarded-for: 203.0.113.7"), left(98, "", "x-forwarded-for: 203.0.113.255"),
			left(99, "", "x-forwarded-for: 203.0.112.7"),
			left(99, "", "x-forwarded-for: 2001:db8::1"), left(98, "", "x-forwarded-for: 2001:db8:0:0:ffff::1")),
	})
}

// TestForgedAddressIsIgnored: without trusted hops a header changes nothing.
func TestForgedAddressIsIgnored(t *testing.T) {
	t.Parallel()
	runScenarios(t, "", envoytest.Options{}, []scenario{
		keyed("address", `{"client_ip": true}`, []string{"|127.0.0.1"},
			left(99, "", "x-forwarded-for: 203.0.113.7"), left(98, "", "x-forwarded-for: 203.0.113.8")),
	})
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
	runScenarios(t, "", envoytest.Options{Edit: before}, []scenario{
		keyed("claim", `{"metadata": ["envoy.filters.http.jwt_authn", "payload", "sub"]}`, []string{"|ann"}, left(99, ""), left(98, "")),
		keyed("tenant", `{"metadata": ["tenants", "name"]}`, []string{"|a", "|b"},
			left(99, "", "x-tenant: a"), left(99, "", "x-tenant: b"), left(98, "", "x-tenant: a"), passes("")),
		{
			name: "tiers",
			rules: `{"name": "@", "match": {"path": {"prefix": "/@"}}, "limits_by": {
				"source": {"metadata": ["envoy.filters.http.jwt_authn", "payload", "tier"]},
				"values": {"1": [{"algorithm": "gcra", "limit": 1, "window": "1h"}], "2": [{"algorithm": "gcra", "limit": 2, "window": "1h"}]}}}`,
			steps: []step{{want: map[string]string{"x-ratelimit-limit": "2"}}},
		},
	})
}

// TestSecretsAreNotStored: of a hashed component nothing is in Redis or a log.
func TestSecretsAreNotStored(t *testing.T) {
	t.Parallel()
	const secret = "hunter2-hunter2"
	s := start(t, `{`+patient+`"rules": [{"name": "r", "key": [{"header": "x-api-key", "hash": true}],
		"limits": [{"algorithm": "sliding_window_log", "limit": 1, "window": "1h"}]}]}`, envoytest.Options{})
	for range 3 {
		get(t, s.URL, "x-api-key: "+secret)
	}
	if text := s.snapshot(t); !strings.Contains(text, "rl:{r|") || strings.Contains(text, secret) {
		t.Errorf("Redis holds %q; want a key of the rule, without the secret", text)
	}
	if strings.Contains(s.Log(), secret) {
		t.Error("the log has the secret")
	}
}
