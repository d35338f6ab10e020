package rule

import (
	"slices"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/ipaddr"
)

func op(op config.MatchOp, value string) *config.StringMatch {
	return &config.StringMatch{Op: op, Value: value}
}

func isPresent(want bool) *config.StringMatch {
	return &config.StringMatch{Op: config.Present, Present: want}
}

func header(name string, m *config.StringMatch) config.Match {
	return config.Match{Headers: []config.NamedMatch{{Name: name, Match: *m}}}
}

func onPath(m *config.StringMatch) config.Match { return config.Match{Path: m} }
func onHost(m *config.StringMatch) config.Match { return config.Match{Host: m} }

// matches says which matches hold for TestMatch's request.
var matches = []struct {
	name  string
	match config.Match
	want  bool
}{
	{"everything", config.Match{}, true},

	{"path exact", onPath(op(config.Exact, "/api/a")), true},
	{"path exact prefix", onPath(op(config.Exact, "/api")), false},
	{"path exact raw", onPath(op(config.Exact, "/x/..//%61pi/a")), false},
	{"path prefix", onPath(op(config.Prefix, "/api/")), true},
	{"path prefix raw", onPath(op(config.Prefix, "/x/")), false},
	{"path suffix", onPath(op(config.Suffix, "pi/a")), true},
	{"path suffix with query", onPath(op(config.Suffix, "q=1")), false},
	{"path contains", onPath(op(config.Contains, "pi/")), true},
	{"path contains not", onPath(op(config.Contains, "x")), false},
	{"path regex", onPath(op(config.Regex, "^/(api|v[0-9]+)/")), true},
	{"path regex anywhere", onPath(op(config.Regex, "p.")), true},
	{"path regex not", onPath(op(config.Regex, "^api")), false},
	{"path present", onPath(isPresent(true)), true},
	{"path absent", onPath(isPresent(false)), false},

	{"host exact", onHost(op(config.Exact, "api.example.com")), true},
	{"host exact, fully qualified", onHost(op(config.Exact, "api.example.com.")), true},
	{"host exact not", onHost(op(config.Exact, "example.com")), false},
	{"host prefix", onHost(op(config.Prefix, "api.")), true},
	{"host suffix", onHost(op(config.Suffix, ".example.com")), true},
	{"host regex", onHost(op(config.Regex, `^[a-z.]+$`)), true},

	{"method", config.Match{Methods: []string{"POST", "GET"}}, true},
	{"other method", config.Match{Methods: []string{"POST"}}, false},
	{"method in another case", config.Match{Methods: []string{"get"}}, false},

	{"header exact", header("x-plan", op(config.Exact, "pro")), true},
	{"header exact, other value", header("x-plan", op(config.Exact, "free")), false},
	{"header present", header("x-plan", isPresent(true)), true},
	{"header not absent", header("x-plan", isPresent(false)), false},
	{"empty header present", header("x-empty", isPresent(true)), true},
	{"empty header exact", header("x-empty", op(config.Exact, "")), true},
	{"missing header present", header("x-none", isPresent(true)), false},
	{"missing header absent", header("x-none", isPresent(false)), true},
	{"missing header exact", header("x-none", op(config.Exact, "")), false},
	{"missing header regex", header("x-none", op(config.Regex, "")), false},

	{"not", not(onPath(op(config.Prefix, "/api"))), false},
	{"not other", not(onPath(op(config.Prefix, "/v2"))), true},
	{"not not", not(not(config.Match{Methods: []string{"GET"}})), true},
	{"not all", not(config.Match{Methods: []string{"GET"}, Path: op(config.Prefix, "/v2")}), true},
	{"none of others", not(onPath(op(config.Prefix, "/v2")), header("x-plan", op(config.Exact, "free"))), true},
	{"none of two, the first holds", not(onPath(op(config.Prefix, "/api")), onPath(op(config.Prefix, "/v2"))), false},
	{"none of two, the last holds", not(onPath(op(config.Prefix, "/v2")), onPath(op(config.Prefix, "/api"))), false},
	{"none of two, both hold", not(onPath(op(config.Prefix, "/api")), header("x-plan", op(config.Exact, "pro"))), false},
	{"not none of two", not(not(onPath(op(config.Prefix, "/v2")), onPath(op(config.Prefix, "/api")))), true},
	{"both", config.Match{Methods: []string{"GET"}, Path: op(config.Prefix, "/api")}, true},
	{"first only", config.Match{Methods: []string{"GET"}, Path: op(config.Prefix, "/v2")}, false},
	{"second only", config.Match{Methods: []string{"PUT"}, Path: op(config.Prefix, "/api")}, false},
	{
		"match but not",
		config.Match{Methods: []string{"GET"}, Not: []config.Match{{Path: op(config.Prefix, "/api")}}},
		false,
	},
}

func TestMatch(t *testing.T) {
	t.Parallel()
	req := get("/x/..//%61pi/a?q=1", "x-plan", " pro\t", "x-plan", "pro", "x-empty", "")
	req.headers[2][1] = "API.example.com.:8080"
	for _, tt := range matches {
		r := counted("r")
		r.Match = tt.match
		if got := len(tags(compile(t, r), req)) == 1; got != tt.want {
			t.Errorf("%s: matches %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestMatchNonASCIIPath(t *testing.T) {
	t.Parallel()
	r := counted("r")
	r.Match.Path = op(config.Prefix, "/caf%C3%A9/")
	set := compile(t, r)
	for _, target := range []string{"/caf\xc3\xa9/x", "/caf%C3%A9/x", "/caf%c3%a9/x"} {
		if len(tags(set, get(target))) != 1 {
			t.Errorf("%q does not match", target)
		}
	}
}

func TestMatchByAddress(t *testing.T) {
	t.Parallel()
	prefix := func(text string, bits int) ipaddr.Prefix {
		addr, ok := ipaddr.Parse(text)
		if !ok {
			t.Fatalf("%s is not an address", text)
		}
		return ipaddr.Prefix{Addr: addr, Bits: bits}
	}
	networks := []ipaddr.Prefix{prefix("10.0.0.0", 8), prefix("2001:db8::", 32), prefix("192.0.2.7", 32)}
	for _, tt := range []struct {
		name   string
		source string
		want   bool
	}{
		{name: "in a network", source: "10.1.2.3:4711", want: true},
		{name: "its last address", source: "10.255.255.255:1", want: true},
		{name: "after it", source: "11.0.0.0:1"},
		{name: "an address", source: "192.0.2.7:1", want: true},
		{name: "the next address", source: "192.0.2.8:1"},
		{name: "IPv6", source: "[2001:db8:1::1]:1", want: true},
		{name: "another IPv6", source: "[2001:db9::1]:1"},
		{name: "IPv4 in IPv6", source: "[::ffff:10.0.0.1]:1", want: true},
		{name: "no address", source: "unix:/tmp/socket"},
		{name: "none"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			in, out := counted("in"), counted("out")
			in.Match.ClientIP = networks
			out.Match = not(config.Match{ClientIP: networks})
			req := from(tt.source)
			want := []string{"out|"}
			if tt.want {
				want = []string{"in|"}
			}
			if got := tags(compile(t, in, out), req); !slices.Equal(got, want) {
				t.Errorf("tags are %q, want %q", got, want)
			}
			if got := req.reads["source.address"]; got != 1 {
				t.Errorf("the address is read %d times, want once", got)
			}
		})
	}
}

// An exempt rule that looks at the path holds only where every upstream reads the
// same path.
func TestExemptPaths(t *testing.T) {
	t.Parallel()
	health := config.Match{Path: op(config.Prefix, "/healthz")}
	other := not(config.Match{Path: op(config.Prefix, "/api")})
	for _, tt := range []struct {
		name   string
		match  config.Match
		target string
		want   bool
	}{
		{name: "as it is read", match: health, target: "/healthz/live", want: true},
		{name: "with a query", match: health, target: "/healthz?a=/../b", want: true},
		{name: "an escape in its one spelling", match: health, target: "/healthz/%C3%A9%20", want: true},
		{name: "an escape in another", match: health, target: "/healthz/%c3%a9"},
		{name: "a byte that should be escaped", match: health, target: "/healthz/\xc3"},
		{name: "an escape of a letter", match: health, target: "/%68ealthz"},
		{name: "dots", match: health, target: "/api/x/../../healthz"},
		{name: "a dot", match: health, target: "/./healthz"},
		{name: "escaped dots", match: health, target: "/api/%2e%2e/healthz"},
		{name: "slashes", match: health, target: "//healthz"},
		{name: "an escaped slash", match: health, target: "/healthz%2F..%2Fapi"},
		{name: "an escaped backslash", match: health, target: "/healthz%5C..%5Capi"},
		{name: "a backslash", match: health, target: `/healthz\..\api`},
		{name: "a parameter", match: health, target: "/healthz/..;/api"},
		{name: "a fragment", match: health, target: "/healthz#/../api"},
		{name: "another path", match: health, target: "/api"},
		{name: "not a path", match: other, target: "/static/a", want: true},
		{name: "not a path, with dots", match: other, target: "/api/../static"},
		{name: "not a path, which it is", match: other, target: "/static/../api"},
		{name: "no path at all", match: config.Match{Methods: []string{"GET"}}, target: "/a/../b", want: true},
		{name: "that there is a path", match: config.Match{Path: isPresent(true)}, target: "/a/../b", want: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var m Matcher
			set := compile(t, config.Rule{Name: "e", Exempt: true, Match: tt.match})
			_, exempt := set.Apply(get(tt.target), &m)
			if got := exempt != nil; got != tt.want {
				t.Errorf("%s is exempt: %v, want %v", tt.target, got, tt.want)
			}
			limiting := counted("r")
			limiting.Match = health
			normal := string(appendPath(nil, tt.target))
			if got := len(tags(compile(t, limiting), get(tt.target))) == 1; got != strings.HasPrefix(normal, "/healthz") {
				t.Errorf("a rule for /healthz applies to %s: %v", tt.target, got)
			}
		})
	}
}

// A method that is not in upper case may be, for the upstream, the one in upper case, or
// another: a rule that limits applies either way, and an exempt rule does not.
func TestMethodsInAnyCase(t *testing.T) {
	t.Parallel()
	posts := config.Match{Methods: []string{"PUT", "POST"}}
	for _, tt := range []struct {
		name, method    string
		match           config.Match
		limited, exempt bool
	}{
		{name: "the method", method: "POST", match: posts, limited: true, exempt: true},
		{name: "in lower case", method: "post", match: posts, limited: true},
		{name: "in mixed case", method: "pOSt", match: posts, limited: true},
		{name: "another", method: "GET", match: posts},
		{name: "another in lower case", method: "get", match: posts},
		{name: "a longer one", method: "posts", match: posts},
		{name: "not the method", method: "POST", match: not(posts)},
		{name: "not, in lower case", method: "post", match: not(posts), limited: true},
		{name: "not another", method: "GET", match: not(posts), limited: true, exempt: true},
		{name: "not another in lower case", method: "get", match: not(posts), limited: true},
		{name: "none of several", method: "Put", match: not(header("x-none", isPresent(true)), posts), limited: true},
		{name: "and another condition", method: "post", match: both(posts, header("x-none", isPresent(true)))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			req := by(tt.method)
			limiting := counted("r")
			limiting.Match = tt.match
			if got := len(tags(compile(t, limiting), req)) == 1; got != tt.limited {
				t.Errorf("a rule applies: %v, want %v", got, tt.limited)
			}
			var m Matcher
			_, exempt := compile(t, config.Rule{Name: "e", Exempt: true, Match: tt.match}).Apply(req, &m)
			if got := exempt != nil; got != tt.exempt {
				t.Errorf("it is exempt: %v, want %v", got, tt.exempt)
			}
		})
	}
}

func TestMatchWithoutPseudoHeaders(t *testing.T) {
	t.Parallel()
	for _, m := range []config.Match{
		{Path: op(config.Contains, "")},
		{Host: op(config.Contains, "")},
		{Methods: []string{""}},
	} {
		r := counted("r")
		r.Match = m
		if got := tags(compile(t, r), &request{}); got != nil {
			t.Errorf("%+v matches a request that has none", m)
		}
	}
}

func queryIs(name string, m *config.StringMatch) config.Match {
	return config.Match{Query: []config.NamedMatch{{Name: name, Match: *m}}}
}

func cookieIs(name string, m *config.StringMatch) config.Match {
	return config.Match{Cookies: []config.NamedMatch{{Name: name, Match: *m}}}
}

var (
	isPro, isB, isEmpty   = op(config.Exact, "pro"), op(config.Exact, "a b"), op(config.Exact, "")
	onPlan                = both(queryIs("plan", isPro), cookieIs("plan", isPro))
	longQuery, longCookie = get("/?" + overlong + "&plan=pro"), get("/", "cookie", overlong+"; plan=pro")
)

// cookie is a request with a Cookie field for each value.
func cookie(values ...string) *request {
	req := get("/")
	for _, value := range values {
		req.headers = append(req.headers, [2]string{"cookie", value})
	}
	return req
}

// yes, no, unknown: whether a condition holds.
const yes, no, unknown = "yes", "no", "unknown"

// namedMatches are conditions on query parameters and cookies.
var namedMatches = []struct {
	name  string
	match config.Match
	req   *request
	want  string
}{
	{"a parameter", queryIs("plan", isPro), get("/a?x=1&plan=pro"), yes},
	{"another value", queryIs("plan", isPro), get("/?plan=free"), no},
	{"no parameter", queryIs("plan", isPro), get("/plan=pro"), no},
	{"no query at all", queryIs("plan", isEmpty), get("/"), no},
	{"a parameter in another case", queryIs("plan", isPro), get("/?Plan=pro"), no},
	{"a parameter, decoded", queryIs("plan", isB), get("/?%70lan=a+b"), yes},
	{"a parameter of another spelling", queryIs("plan", isPro), get("/?plan=p%72o"), yes},
	{"a parameter that a regex finds", queryIs("plan", op(config.Regex, "^p.o$")), get("/?plan=p%72o"), yes},
	{"a parameter without a value", queryIs("plan", isEmpty), get("/?plan"), yes},
	{"a parameter twice, the same", queryIs("plan", isPro), get("/?plan=pro&plan=%70ro"), yes},
	{"a parameter twice", queryIs("plan", isPro), get("/?plan=free&plan=pro"), unknown},
	{"a parameter twice, not it", queryIs("plan", isPro), get("/?plan=a&plan=b"), unknown},
	{"not a parameter that is there twice", not(queryIs("plan", isPro)), get("/?plan=a&plan=b"), unknown},
	{"not a parameter", not(queryIs("plan", isPro)), get("/?plan=free"), yes},
	{"a parameter is there", queryIs("plan", isPresent(true)), get("/?plan"), yes},
	{"a parameter is there, empty", queryIs("plan", isPresent(true)), get("/?plan="), yes},
	{"a parameter is there twice", queryIs("plan", isPresent(true)), get("/?plan=a&plan=b"), yes},
	{"a parameter that is there twice is not absent", queryIs("plan", isPresent(false)), get("/?plan=a&plan=b"), no},
	{"a parameter is absent", queryIs("plan", isPresent(false)), get("/?a=plan"), yes},
	{"a long query", queryIs("plan", isPro), longQuery, unknown},
	{"a long query, not", not(queryIs("plan", isPro)), longQuery, unknown},
	{"a long query, present", queryIs("plan", isPresent(true)), longQuery, unknown},
	{"a long query, absent", queryIs("none", isPresent(false)), longQuery, unknown},

	{"a cookie", cookieIs("plan", isPro), cookie("a=b; plan=pro"), yes},
	{"a cookie in a field of its own", cookieIs("plan", isPro), cookie("a=b", "plan=pro"), yes},
	{"a cookie of another value", cookieIs("plan", isPro), cookie("plan=free"), no},
	{"no cookies", cookieIs("plan", isPro), get("/"), no},
	{"a cookie in another case", cookieIs("plan", isPro), cookie("PLAN=pro"), no},
	{"a cookie in quotes", cookieIs("plan", isPro), cookie(`plan="p\162o"`), yes},
	{"a cookie with blanks around", cookieIs("plan", isPro), cookie("plan =\u00a0pro "), yes},
	{"a cookie, decoded", cookieIs("plan", isB), cookie("plan=a%20b"), yes},
	{"an empty cookie", cookieIs("plan", isEmpty), cookie("plan="), yes},
	{"a cookie that a suffix ends", cookieIs("plan", op(config.Suffix, "ro")), cookie("plan=pro"), yes},
	{"a cookie twice, the same", cookieIs("plan", isPro), cookie("plan=pro; plan=%70ro"), yes},
	{"a cookie twice", cookieIs("plan", isPro), cookie("plan=pro", "plan=free"), unknown},
	{"not a cookie that is there twice", not(cookieIs("plan", isPro)), cookie("plan=a; plan=b"), unknown},
	{"a cookie is there twice", cookieIs("plan", isPresent(true)), cookie("plan=a; plan=b"), yes},
	{"a cookie is absent", cookieIs("plan", isPresent(false)), cookie("plans=a"), yes},
	{"long cookies", cookieIs("plan", isPro), longCookie, unknown},
	{"long cookies, absent", cookieIs("none", isPresent(false)), longCookie, unknown},

	{"both", onPlan, get("/?plan=pro", "cookie", "plan=pro"), yes},
	{"one of both", onPlan, get("/?plan=pro", "cookie", "plan=free"), no},
	{"one of both, the other unknown", onPlan, get("/?plan=pro", "cookie", "plan=a; plan=pro"), unknown},
	{"neither, one unknown", onPlan, get("/?plan=free", "cookie", "plan=a; plan=pro"), no},
}

// A condition on a query parameter or a cookie compares what a key would read. Where upstreams may
// read different values, or the value is too long to be read, a rule applies and an exempt one does not.
func TestMatchByQueryAndCookies(t *testing.T) {
	t.Parallel()
	for _, tt := range namedMatches {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			limiting := counted("r")
			limiting.Match = tt.match
			if got := len(tags(compile(t, limiting), tt.req)) == 1; got != (tt.want != no) {
				t.Errorf("a rule applies: %v, want the condition to be %s", got, tt.want)
			}
			var m Matcher
			_, exempt := compile(t, config.Rule{Name: "e", Exempt: true, Match: tt.match}).Apply(tt.req, &m)
			if got := exempt != nil; got != (tt.want == yes) {
				t.Errorf("it is exempt: %v, want the condition to be %s", got, tt.want)
			}
		})
	}
}

// A rule that matches by a cookie and counts by another reads each of them.
func TestMatchAndKeyOfCookies(t *testing.T) {
	t.Parallel()
	r := counted("r", config.Component{Source: config.FromCookie, Name: "sid"})
	r.Match = both(cookieIs("plan", op(config.Exact, "pro")), queryIs("sid", op(config.Exact, "b")))
	got := tags(compile(t, r), get("/?sid=b", "cookie", "plan=pro; sid=a%7C"))
	if !slices.Equal(got, []string{"r|a%7C"}) {
		t.Errorf("tags are %q", got)
	}
}
