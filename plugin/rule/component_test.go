package rule

import (
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// all is a request that has something of everything.
var all = get("/api//v1/../v2/a?user=%61lice&user=alice&page",
	"x-api-key", " k1 ", "x-api-key", "k1", "x-empty", "", "authorization", "bearer  b1",
	"cookie", `theme=x; sid="s%31"; sid=s1`, "cookie", "other=1",
	"source.address", "[2001:db8::1]:443",
	"metadata.filter_metadata.envoy.filters.http.jwt_authn.payload.sub", "alice",
	"connection.uri_san_peer_certificate", "spiffe://td/ns/x",
	"source.port", integer(443),
	"metadata.filter_metadata.jwt.uid", testenv.Doubles(42),
	"metadata.filter_metadata.jwt.order", "ORDER09C",
	"connection.mtls", "\x01",
	"request.empty", "",
	"string(e\n)", "a b")

// much is a request whose other values use up what a request has for patterns, and nearly all else.
var much = get("/"+strings.Repeat("a", requestUnits/unitsToNormalise-10),
	"user-agent", "é"+strings.Repeat("b", 2000), "x-id", "me", "cookie", "sid=mine",
	"source.address", "192.0.2.7:1", "metadata.filter_metadata.jwt.sub", strings.Repeat("c", 400))

var (
	longID = get("/", "x-id", overlong)
	half   = strings.Repeat("a", requestUnits/unitsToHash*3/4)
)

// components are parts of a key, and the identity that each makes of a request.
var components = []struct {
	name string
	c    string
	req  *request
	want string // "" if the rule does not apply
}{
	{"header", `{"header": "x-api-key"}`, all, "k1"},
	{"empty header", `{"header": "x-empty"}`, all, "%"},
	{"empty header with default", `{"header": "x-empty", "default": "d"}`, all, "%"},
	{"missing header", `{"header": "x-none"}`, all, ""},
	{"missing header with default", `{"header": "x-none", "default": "d"}`, all, "d"},
	{"missing header with empty default", `{"header": "x-none", "default": ""}`, all, "%"},
	{"hashed", `{"header": "x-api-key", "hash": true}`, all, sha("k1")[:40]},
	{"hashed default", `{"header": "x-none", "hash": true, "default": "d"}`, all, sha("d")[:40]},
	{"cookie", `{"cookie": "sid", "hash": false}`, all, "s1"},
	{"cookie of the second header", `{"cookie": "other", "hash": false}`, all, "1"},
	{"bearer", `{"bearer": true, "hash": false}`, all, "b1"},
	{"hashed bearer", `{"bearer": true}`, all, sha("b1")[:40]},
	{"hashed cookie", `{"cookie": "sid"}`, all, sha("s1")[:40]},
	{"query", `{"query": "user"}`, all, "alice"},
	{"query without value", `{"query": "page"}`, all, "%"},
	{"missing query", `{"query": "none"}`, all, ""},
	{"client address", `{"client_ip": {"v4_prefix": 24, "v6_prefix": 128}}`, all, "2001:db8::1"},
	{"client network", `{"client_ip": {"v4_prefix": 24, "v6_prefix": 64}}`, all, "2001:db8::/64"},
	{"path", `{"path": true}`, all, "/api/v2/a"},
	{"path segments", `{"path": {"segments": 2}}`, all, "/api/v2"},
	{"method", `{"method": true}`, all, "GET"},
	{"host", `{"host": true}`, all, "api.example.com"},
	{"metadata", `{"metadata": ["envoy.filters.http.jwt_authn", "payload", "sub"]}`, all, "alice"},
	{"missing metadata", `{"metadata": ["envoy.filters.http.jwt_authn", "payload"]}`, all, ""},
	{"property", `{"property": ["connection", "uri_san_peer_certificate"]}`, all, "spiffe://td/ns/x"},
	{"number", `{"property": ["source", "port"]}`, all, "443"},
	{"double", `{"metadata": ["jwt", "uid"]}`, all, "42"},
	{"hashed double", `{"metadata": ["jwt", "uid"], "hash": true}`, all, sha("42")[:40]},
	{"text that could be a double", `{"metadata": ["jwt", "order"]}`, all, "ORDER09C"},
	{"boolean", `{"property": ["connection", "mtls"]}`, all, "true"},
	{"empty property", `{"property": ["request", "empty"]}`, all, "%"},
	{"constant", `{"constant": "x"}`, all, "x"},
	{"expression", `{"expr": "e"}`, all, "a%20b"},
	{"hashed expression", `{"expr": "e", "hash": true}`, all, sha("a b")[:40]},
	{"expression without a value", `{"expr": "none"}`, all, ""},
	{"expression with a default", `{"expr": "none", "default": "d"}`, all, "d"},
	{"no bearer", `{"bearer": true, "hash": false}`, get("/", "authorization", ""), ""},
	{"another scheme", `{"bearer": true, "hash": false}`, get("/", "authorization", "Basic YTpi"), ""},
	{
		"a longer scheme, with a default", `{"bearer": true, "hash": false, "default": "none"}`,
		get("/", "authorization", "Bearers abc"), "none",
	},

	// Values that are too long to be looked at share one identity.
	{"long header", `{"header": "x-id"}`, longID, "%long"},
	{"long hashed header", `{"header": "x-id", "hash": true}`, longID, "%long"},
	{"long, with a default", `{"header": "x-id", "default": ""}`, longID, "%long"},
	{"long query", `{"query": "user"}`, get("/?" + overlong + "&user=a"), "%long"},
	{"long cookie", `{"cookie": "sid", "hash": false}`, get("/", "cookie", overlong+"; sid=a"), "%long"},
	{"long bearer", `{"bearer": true, "hash": false}`, get("/", "authorization", "Bearer "+overlong), "%long"},
	{"long path", `{"path": true}`, get("/" + overlong), "%long"},
	{"long segment", `{"path": {"segments": 1}}`, get("/a/" + overlong), "%long"},
	{"several values, with a default", `{"query": "user", "default": "d"}`, get("/?user=a&user=b"), "%many"},
	{"a value that says so", `{"header": "x-id"}`, get("/", "x-id", "%long"), "%25long"},
	{"an identity that is too long to be hashed", `{"header": "x-id"}`, get("/", "x-id", half), "%long"},
	{"a digest is made once", `{"header": "x-id", "hash": true}`, get("/", "x-id", half), sha(half)[:40]},

	// A client cannot leave its identity by a long value of anything else.
	{"address", `{"client_ip": true}`, much, "192.0.2.7"},
	{"header after much", `{"header": "x-id"}`, much, "me"},
	{"hashed header after much", `{"header": "x-id", "hash": true}`, much, sha("me")[:40]},
	{"cookie after much", `{"cookie": "sid", "hash": false}`, much, "mine"},
	{"host after much", `{"host": true}`, much, "api.example.com"},
	{"method after much", `{"method": true}`, much, "GET"},
	{"claim of 400 bytes after much", `{"metadata": ["jwt", "sub"]}`, much, sha(strings.Repeat("c", 400))},
}

func TestComponents(t *testing.T) {
	t.Parallel()
	for _, tt := range components {
		got := tags(compile(t,
			`"name": "patterned", "match": {"not": {"headers": {
				"user-agent": {"regex": "(?i)bot|crawl|spider|slurp|curl|wget|python|scrapy"}}}}`,
			`"name": "reading", "match": {"path": {"prefix": "/"}}`,
			`"key": [`+tt.c+`]`, `"name": "s", "key": [`+tt.c+`]`), tt.req)
		want := []string{"patterned|", "reading|"}
		if tt.want != "" {
			want = append(want, "r|"+tt.want, "s|"+tt.want)
		}
		testenv.SameList(t, tt.name+": the tags", got, want)
	}
	testenv.SameList(t, "beside a long value",
		tags(compile(t, `"key": [{"method": true}, {"header": "x-id"}]`), longID), []string{"r|GET|%long"})
	testenv.SameList(t, "hashed and not", tags(compile(t, `"key": [{"header": "x-api-key"}]`,
		`"name": "s", "key": [{"header": "x-api-key", "hash": true}]`), all), []string{"r|k1", "s|" + sha("k1")[:40]})
	testenv.SameList(t, "two defaults", tags(compile(t, `"key": [{"header": "x-none", "default": "a"}]`,
		`"name": "s", "key": [{"header": "x-none", "default": "b"}]`), all), []string{"r|a", "s|b"})
}
