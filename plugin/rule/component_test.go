package rule

import (
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/config"
)

func source(of config.Source) config.Component { return config.Component{Source: of} }

func fromHeader(name string) config.Component {
	return config.Component{Source: config.FromHeader, Name: name}
}

func fromCookie(name string) config.Component {
	return config.Component{Source: config.FromCookie, Name: name}
}

func fromQuery(name string) config.Component {
	return config.Component{Source: config.FromQuery, Name: name}
}

func fromAddress(v4, v6 int) config.Component {
	return config.Component{Source: config.FromClientIP, V4Prefix: v4, V6Prefix: v6}
}

func segments(n int) config.Component {
	return config.Component{Source: config.FromPath, Segments: n}
}

func fromMetadata(path ...string) config.Component {
	return config.Component{Source: config.FromMetadata, Path: path}
}

func fromProperty(path ...string) config.Component {
	return config.Component{Source: config.FromProperty, Path: path}
}

func byExpression(text string) config.Component {
	return config.Component{Source: config.FromExpr, Expr: text}
}

func constant(value string) config.Component {
	return config.Component{Source: config.FromConstant, Value: value}
}

// hash is a component that is hashed.
func hash(c config.Component) config.Component {
	c.Hash = true
	return c
}

// first is a component of which the first value counts.
func first(c config.Component) config.Component {
	c.First = true
	return c
}

// orElse is a component with a default.
func orElse(c config.Component, value string) config.Component {
	c.HasDefault, c.Default = true, value
	return c
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

// full is a request that has something of everything.
func full() *request {
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
	req.values = map[string]string{"string(e\n)": "a b"}
	return req
}

func authorized(value string) *request { return get("/", "authorization", value) }

// greedy is a request whose other values use up what a request has for patterns, and nearly all else.
func greedy() *request {
	req := get("/"+strings.Repeat("a", requestUnits/unitsToNormalise-10),
		"user-agent", "é"+strings.Repeat("b", 2000), "x-id", "me", "cookie", "sid=mine")
	req.properties = map[string]string{
		"source.address": "192.0.2.7:1", "metadata.filter_metadata.jwt.sub": strings.Repeat("c", 400),
	}
	return req
}

var (
	all    = full()
	much   = greedy()
	xID    = fromHeader("x-id")
	longID = get("/", "x-id", overlong)
	half   = strings.Repeat("a", requestUnits/unitsToHash*3/4)
	jwtSub = []string{"envoy.filters.http.jwt_authn", "payload", "sub"}
)

// components are parts of a key, and the identity that each makes of a request.
var components = []struct {
	name string
	c    config.Component
	req  *request
	want string // "" if the rule does not apply
}{
	{"header", fromHeader("x-api-key"), all, "k1"},
	{"empty header", fromHeader("x-empty"), all, "%"},
	{"empty header with default", orElse(fromHeader("x-empty"), "d"), all, "%"},
	{"missing header", fromHeader("x-none"), all, ""},
	{"missing header with default", orElse(fromHeader("x-none"), "d"), all, "d"},
	{"missing header with empty default", orElse(fromHeader("x-none"), ""), all, "%"},
	{"hashed", hash(fromHeader("x-api-key")), all, sha("k1")[:40]},
	{"hashed default", hash(orElse(fromHeader("x-none"), "d")), all, sha("d")[:40]},
	{"cookie", fromCookie("sid"), all, "s1"},
	{"cookie of the second header", fromCookie("other"), all, "1"},
	{"bearer", bearer, all, "b1"},
	{"hashed bearer", hash(bearer), all, sha("b1")[:40]},
	{"hashed cookie", hash(fromCookie("sid")), all, sha("s1")[:40]},
	{"query", fromQuery("user"), all, "alice"},
	{"query without value", fromQuery("page"), all, "%"},
	{"missing query", fromQuery("none"), all, ""},
	{"client address", fromAddress(24, 128), all, "2001:db8::1"},
	{"client network", fromAddress(24, 64), all, "2001:db8::/64"},
	{"path", source(config.FromPath), all, "/api/v2/a"},
	{"path segments", segments(2), all, "/api/v2"},
	{"method", source(config.FromMethod), all, "GET"},
	{"host", source(config.FromHost), all, "api.example.com"},
	{"metadata", fromMetadata(jwtSub...), all, "alice"},
	{"missing metadata", fromMetadata(jwtSub[:2]...), all, ""},
	{"property", fromProperty("connection", "uri_san_peer_certificate"), all, "spiffe://td/ns/x"},
	{"number", fromProperty("source", "port"), all, "443"},
	{"double", fromMetadata("jwt", "uid"), all, "42"},
	{"hashed double", hash(fromMetadata("jwt", "uid")), all, sha("42")[:40]},
	{"text that could be a double", fromMetadata("jwt", "order"), all, "ORDER09C"},
	{"boolean", fromProperty("connection", "mtls"), all, "true"},
	{"empty property", fromProperty("request", "empty"), all, "%"},
	{"constant", constant("x"), all, "x"},
	{"expression", byExpression("e"), all, "a%20b"},
	{"hashed expression", hash(byExpression("e")), all, sha("a b")[:40]},
	{"expression without a value", byExpression("none"), all, ""},
	{"expression with a default", orElse(byExpression("none"), "d"), all, "d"},
	{"no bearer", bearer, authorized(""), ""},
	{"another scheme", bearer, authorized("Basic YTpi"), ""},
	{"a longer scheme, with a default", orElse(bearer, "none"), authorized("Bearers abc"), "none"},

	// Values that are too long to be looked at share one identity.
	{"long header", xID, longID, "%long"},
	{"long hashed header", hash(xID), longID, "%long"},
	{"long, with a default", orElse(xID, ""), longID, "%long"},
	{"long query", fromQuery("user"), get("/?" + overlong + "&user=a"), "%long"},
	{"long cookie", fromCookie("sid"), get("/", "cookie", overlong+"; sid=a"), "%long"},
	{"long bearer", bearer, authorized("Bearer " + overlong), "%long"},
	{"long path", source(config.FromPath), get("/" + overlong), "%long"},
	{"long segment", segments(1), get("/a/" + overlong), "%long"},
	{"several values, with a default", orElse(fromQuery("user"), "d"), get("/?user=a&user=b"), "%many"},
	{"a value that says so", xID, get("/", "x-id", "%long"), "%25long"},
	{"an identity that is too long to be hashed", xID, get("/", "x-id", half), "%long"},
	{"a digest is made once", hash(xID), get("/", "x-id", half), sha(half)[:40]},

	// A client cannot leave its identity by a long value of anything else.
	{"address", fromAddress(32, 128), much, "192.0.2.7"},
	{"header after much", xID, much, "me"},
	{"hashed header after much", hash(xID), much, sha("me")[:40]},
	{"cookie after much", fromCookie("sid"), much, "mine"},
	{"host after much", source(config.FromHost), much, "api.example.com"},
	{"method after much", source(config.FromMethod), much, "GET"},
	{"claim of 400 bytes after much", fromMetadata("jwt", "sub"), much, sha(strings.Repeat("c", 400))},
}

func TestComponents(t *testing.T) {
	t.Parallel()
	for _, tt := range components {
		patterned, reading := counted("patterned"), counted("reading")
		patterned.Match = not(header("user-agent", regex(`(?i)bot|crawl|spider|slurp|curl|wget|python|scrapy`)))
		reading.Match = onPath(prefix("/"))
		got := tags(compile(t, patterned, reading, counted("r", tt.c), counted("s", tt.c)), tt.req)
		want := []string{"patterned|", "reading|"}
		if tt.want != "" {
			want = append(want, "r|"+tt.want, "s|"+tt.want)
		}
		testenv.SameList(t, tt.name+": the tags", got, want)
	}
	testenv.SameList(t, "beside a long value", tags(compile(t, counted("r", source(config.FromMethod), xID)), longID),
		[]string{"r|GET|%long"})
	a, b := orElse(fromHeader("x-none"), "a"), orElse(fromHeader("x-none"), "b")
	testenv.SameList(t, "two defaults", tags(compile(t, counted("r", a), counted("s", b)), all), []string{"r|a", "s|b"})
}
