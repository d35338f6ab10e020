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
	req := get("/api//v1/../v2/a?user=%61lice&user=alice&page", "x-api-key", " k1 ", "x-api-key", "k1", "x-empty", "",
		"authorization", "bearer  b1",
		"cookie", `theme=x; sid="s%31"; sid=s1`, "cookie", "other=1")
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
	for _, authorization := range []string{"", "Basic YTpi", "Bearers abc"} {
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
