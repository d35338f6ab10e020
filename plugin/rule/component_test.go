package rule

import (
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/config"
)

// components are parts of a key, and the tag that each makes of TestComponents' request.
var components = []struct {
	name string
	c    config.Component
	want string // "" if the rule does not apply
}{
	{"header", config.Component{Source: config.FromHeader, Name: "x-api-key"}, "r|k1"},
	{"empty header", config.Component{Source: config.FromHeader, Name: "x-empty"}, "r|%"},
	{
		"empty header with default",
		config.Component{Source: config.FromHeader, Name: "x-empty", HasDefault: true, Default: "d"},
		"r|%",
	},
	{"missing header", config.Component{Source: config.FromHeader, Name: "x-none"}, ""},
	{
		"missing header with default",
		config.Component{Source: config.FromHeader, Name: "x-none", HasDefault: true, Default: "d"},
		"r|d",
	},
	{
		"missing header with empty default",
		config.Component{Source: config.FromHeader, Name: "x-none", HasDefault: true},
		"r|%",
	},
	{"hashed", config.Component{Source: config.FromHeader, Name: "x-api-key", Hash: true}, "r|" + sha("k1")[:40]},
	{"hashed default", config.Component{
		Source: config.FromHeader, Name: "x-none", Hash: true, HasDefault: true,
		Default: "d",
	}, "r|" + sha("d")[:40]},
	{"cookie", config.Component{Source: config.FromCookie, Name: "sid"}, "r|s1"},
	{"cookie of the second header", config.Component{Source: config.FromCookie, Name: "other"}, "r|1"},
	{"bearer", config.Component{Source: config.FromBearer}, "r|b1"},
	{"hashed bearer", config.Component{Source: config.FromBearer, Hash: true}, "r|" + sha("b1")[:40]},
	{"hashed cookie", config.Component{Source: config.FromCookie, Name: "sid", Hash: true}, "r|" + sha("s1")[:40]},
	{"query", config.Component{Source: config.FromQuery, Name: "user"}, "r|alice"},
	{"query without value", config.Component{Source: config.FromQuery, Name: "page"}, "r|%"},
	{"missing query", config.Component{Source: config.FromQuery, Name: "none"}, ""},
	{"client address", config.Component{Source: config.FromClientIP, V4Prefix: 24, V6Prefix: 128}, "r|2001:db8::1"},
	{"client network", config.Component{Source: config.FromClientIP, V4Prefix: 24, V6Prefix: 64}, "r|2001:db8::/64"},
	{"path", config.Component{Source: config.FromPath}, "r|/api/v2/a"},
	{"path segments", config.Component{Source: config.FromPath, Segments: 2}, "r|/api/v2"},
	{"method", config.Component{Source: config.FromMethod}, "r|GET"},
	{"host", config.Component{Source: config.FromHost}, "r|api.example.com"},
	{"metadata", config.Component{
		Source: config.FromMetadata,
		Path:   []string{"envoy.filters.http.jwt_authn", "payload", "sub"},
	}, "r|alice"},
	{"missing metadata", config.Component{
		Source: config.FromMetadata,
		Path:   []string{"envoy.filters.http.jwt_authn", "payload"},
	}, ""},
	{
		"property",
		config.Component{Source: config.FromProperty, Path: []string{"connection", "uri_san_peer_certificate"}},
		"r|spiffe://td/ns/x",
	},
	{"number", config.Component{Source: config.FromProperty, Path: []string{"source", "port"}}, "r|443"},
	{"double", config.Component{Source: config.FromMetadata, Path: []string{"jwt", "uid"}}, "r|42"},
	{
		"hashed double",
		config.Component{Source: config.FromMetadata, Path: []string{"jwt", "uid"}, Hash: true},
		"r|" + sha("42")[:40],
	},
	{
		"text that could be a double",
		config.Component{Source: config.FromMetadata, Path: []string{"jwt", "order"}},
		"r|ORDER09C",
	},
	{"boolean", config.Component{Source: config.FromProperty, Path: []string{"connection", "mtls"}}, "r|true"},
	{"empty property", config.Component{Source: config.FromProperty, Path: []string{"request", "empty"}}, "r|%"},
	{"constant", config.Component{Source: config.FromConstant, Value: "x"}, "r|x"},
}

func TestComponents(t *testing.T) {
	t.Parallel()
	req := get("/api//v1/../v2/a?user=%61lice&user=bob&page", "x-api-key", " k1 ", "x-api-key", "k2", "x-empty", "",
		"authorization", "bearer  b1",
		"cookie", `theme=x; sid="s%31"; sid=s2`, "cookie", "other=1")
	req.properties = map[string]string{
		"source.address": "[2001:db8::1]:443",
		"metadata.filter_metadata.envoy.filters.http.jwt_authn.payload.sub": "alice",
		"connection.uri_san_peer_certificate":                               "spiffe://td/ns/x",
		"source.port":                                                       integer(443),
		"metadata.filter_metadata.jwt.uid":                                  double(42),
		"metadata.filter_metadata.jwt.order":                                "ORDER09C",
		"connection.mtls":                                                   "\x01",
		"request.empty":                                                     "",
	}
	for _, tt := range components {
		var want []string
		if tt.want != "" {
			want = []string{tt.want}
		}
		testenv.SameList(t, tt.name+": the tags", tags(compile(t, counted("r", tt.c)), req), want)
	}
}

func TestAbsentBearer(t *testing.T) {
	t.Parallel()
	bearer := config.Component{Source: config.FromBearer}
	withDefault := bearer
	withDefault.HasDefault, withDefault.Default = true, "none"
	tier := tiered(bearer, "")
	for _, authorization := range []string{"", "Basic YTpi", "Bearer", "Bearer  "} {
		req := get("/", "authorization", authorization)
		if got := tags(compile(t, counted("r", bearer), tier), req); got != nil {
			t.Errorf("%q: tags are %q, want none", authorization, got)
		}
		if got := tags(compile(t, counted("r", withDefault)), req); len(got) != 1 || got[0] != "r|none" {
			t.Errorf("%q: tags are %q, want that of the default", authorization, got)
		}
	}
	if got := tags(compile(t, tier), get("/", "authorization", "BEARER free")); len(got) != 1 {
		t.Errorf("the token as a tier: tags are %q, want one", got)
	}
}

// A client that has spent its limit must not get a new one by sending more of
// what names it, or by spelling it in another way.
func TestSpellingsOfOneIdentity(t *testing.T) {
	t.Parallel()
	sid := config.Component{Source: config.FromCookie, Name: "sid"}
	user := config.Component{Source: config.FromQuery, Name: "user"}
	key := config.Component{Source: config.FromHeader, Name: "x-api-key"}
	segments := config.Component{Source: config.FromPath, Segments: 1}
	address := config.Component{Source: config.FromClientIP, V4Prefix: 32, V6Prefix: 128}
	for _, tt := range []struct {
		name string
		c    config.Component
		reqs []*request
	}{
		{"repeated header", key, []*request{
			get("/", "x-api-key", "k"), get("/", "x-api-key", "k", "x-api-key", "l"), get("/", "x-api-key", "\t k "),
			get("/", "x-api-key", "k", "x-api-key2", "l"),
		}},
		{"repeated cookie", sid, []*request{
			get("/", "cookie", "sid=k"), get("/", "cookie", "sid=k; sid=l"), get("/", "cookie", "a=b; sid=k", "cookie", "sid=l"),
			get("/", "cookie", "SID=l; sid=k"), get("/", "cookie", "sid=%6B"), get("/", "cookie", `sid="k"`),
			get("/", "cookie", "sid =k "),
			get("/", "cookie", `sid="\153"`), get("/", "cookie", `sid="\k"`),
		}},
		{"repeated parameter", user, []*request{
			get("/?user=k"), get("/?user=k&user=l"), get("/?User=l&user=k"), get("/?%75ser=k&user=l"), get("/?user=%6b#user=l"),
			get("/a?&user=k"),
		}},
		{"bearer", config.Component{Source: config.FromBearer}, []*request{
			get("/", "authorization", "Bearer k"), get("/", "authorization", "bEARER k"),
			get("/", "authorization", "Bearer   k "),
			get("/", "authorization", "Bearer k l"), get("/", "authorization", "Bearer k", "authorization", "Bearer l"),
		}},
		{"path", segments, []*request{
			get("/a"), get("/a/"), get("/a/b"), get("//a"), get("/%61"), get("/x/../a"), get("/./a?x"), get("http://other/a"),
		}},
		{"method", config.Component{Source: config.FromMethod}, []*request{
			by("POST"), by("post"), by("Post"), by("pOST"),
		}},
		{"address", address, []*request{from("192.0.2.1:1"), from("192.0.2.1:2"), from("[::ffff:192.0.2.1]:3")}},
		{"forwarded for", address, []*request{
			from("192.0.2.1:1"), from("192.0.2.1:1", "x-forwarded-for", "198.51.100.1"),
			from("192.0.2.1:1", "forwarded", "for=198.51.100.1"),
		}},
	} {
		set := compile(t, counted("r", tt.c))
		want := tags(set, tt.reqs[0])
		if len(want) != 1 {
			t.Fatalf("%s: the first request has the tags %q", tt.name, want)
		}
		for _, req := range tt.reqs[1:] {
			if got := tags(set, req); len(got) != 1 || got[0] != want[0] {
				t.Errorf("%s: %v has the tags %q, want %q", tt.name, req.headers, got, want)
			}
		}
	}
}

// by is a request by a method.
func by(method string) *request {
	req := get("/")
	req.headers[0][1] = method
	return req
}

// from is a request of a client at a source.address.
func from(address string, more ...string) *request {
	req := get("/", more...)
	req.properties = map[string]string{"source.address": address}
	return req
}
