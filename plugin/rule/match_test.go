package rule

import (
	"slices"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/ipaddr"
)

func op(op config.MatchOp, value string) *config.StringMatch {
	return &config.StringMatch{Op: op, Value: value}
}

func exact(value string) *config.StringMatch    { return op(config.Exact, value) }
func prefix(value string) *config.StringMatch   { return op(config.Prefix, value) }
func suffix(value string) *config.StringMatch   { return op(config.Suffix, value) }
func contains(value string) *config.StringMatch { return op(config.Contains, value) }
func regex(value string) *config.StringMatch    { return op(config.Regex, value) }

func isPresent(want bool) *config.StringMatch {
	return &config.StringMatch{Op: config.Present, Present: want}
}

func onPath(m *config.StringMatch) config.Match { return config.Match{Path: m} }
func onHost(m *config.StringMatch) config.Match { return config.Match{Host: m} }
func method(list ...string) config.Match        { return config.Match{Methods: list} }
func byExpr(text string) config.Match           { return config.Match{Expr: text} }
func not(m ...config.Match) config.Match        { return config.Match{Not: m} }

func header(name string, m *config.StringMatch) config.Match {
	return config.Match{Headers: []config.NamedMatch{{Name: name, Match: *m}}}
}

func queryIs(name string, m *config.StringMatch) config.Match {
	return config.Match{Query: []config.NamedMatch{{Name: name, Match: *m}}}
}

func cookieIs(name string, m *config.StringMatch) config.Match {
	return config.Match{Cookies: []config.NamedMatch{{Name: name, Match: *m}}}
}

func both(a, b config.Match) config.Match {
	a.Methods = append(a.Methods, b.Methods...)
	a.Headers = append(a.Headers, b.Headers...)
	a.Query = append(a.Query, b.Query...)
	a.Cookies = append(a.Cookies, b.Cookies...)
	a.Not = append(a.Not, b.Not...)
	if b.Path != nil {
		a.Path = b.Path
	}
	if b.Expr != "" {
		a.Expr = b.Expr
	}
	return a
}

// on is a request to an authority.
func on(authority string, req *request) *request {
	req.headers[2][1] = authority
	return req
}

// cookie is a request with a Cookie field for each value.
func cookie(values ...string) *request {
	req := get("/")
	for _, value := range values {
		req.headers = append(req.headers, [2]string{"cookie", value})
	}
	return req
}

func network(text string, bits int) ipaddr.Prefix {
	addr, _ := ipaddr.Parse(text)
	return ipaddr.Prefix{Addr: addr, Bits: bits}
}

var (
	isPro, isB, isEmpty = exact("pro"), exact("a b"), exact("")
	onPlan              = both(queryIs("plan", isPro), cookieIs("plan", isPro))
	health              = onPath(prefix("/healthz"))
	other               = not(onPath(prefix("/api")))
	posts               = method("PUT", "POST")
	clients             = config.Match{ClientIP: []ipaddr.Prefix{
		network("10.0.0.0", 8), network("2001:db8::", 32), network("192.0.2.7", 32),
	}}
	unseen, contained = header("x-long", regex("b")), header("x-long", contains("b"))
	holds, holdsNot   = method("GET"), header("x-none", exact("a"))

	twisted = on("API.example.com.:8080",
		get("/x/..//%61pi/a?q=1", "x-plan", " pro\t", "x-plan", "pro", "x-empty", ""))
	evaluated = valued(map[string]string{
		"(e\n) == true": "\x01", "(no\n) == true": "\x00", "(other\n) == true": "true",
	})
	twice                 = get("/", "x-plan", "pro", "x-plan", "free")
	long                  = get("/", "x-long", overlong, "x-short", "b")
	longPath, longHost    = get("/" + overlong), on(overlong, get("/"))
	longQuery, longCookie = get("/?" + overlong + "&plan=pro"), get("/", "cookie", overlong+"; plan=pro")
)

// yes, no, unknown: whether a match holds. What cannot be known makes a rule apply, and an exempt one not.
const yes, no, unknown = "yes", "no", "unknown"

var matches = []struct {
	name  string
	match config.Match
	req   *request
	want  string
}{
	// Of a request whose path is not written as it is read, so that no rule exempts by it.
	{"everything", config.Match{}, twisted, yes},
	{"path exact", onPath(exact("/api/a")), twisted, unknown},
	{"path exact prefix", onPath(exact("/api")), twisted, no},
	{"path exact raw", onPath(exact("/x/..//%61pi/a")), twisted, no},
	{"path prefix", onPath(prefix("/api/")), twisted, unknown},
	{"path prefix raw", onPath(prefix("/x/")), twisted, no},
	{"path suffix", onPath(suffix("pi/a")), twisted, unknown},
	{"path suffix with query", onPath(suffix("q=1")), twisted, no},
	{"path contains", onPath(contains("pi/")), twisted, unknown},
	{"path contains not", onPath(contains("x")), twisted, no},
	{"path regex", onPath(regex("^/(api|v[0-9]+)/")), twisted, unknown},
	{"path regex anywhere", onPath(regex("p.")), twisted, unknown},
	{"path regex not", onPath(regex("^api")), twisted, no},
	{"path present", onPath(isPresent(true)), twisted, yes},
	{"path absent", onPath(isPresent(false)), twisted, no},
	{"host exact", onHost(exact("api.example.com")), twisted, yes},
	{"host exact, fully qualified", onHost(exact("api.example.com.")), twisted, yes},
	{"host exact not", onHost(exact("example.com")), twisted, no},
	{"host prefix", onHost(prefix("api.")), twisted, yes},
	{"host suffix", onHost(suffix(".example.com")), twisted, yes},
	{"host regex", onHost(regex(`^[a-z.]+$`)), twisted, yes},
	{"method", method("POST", "GET"), twisted, yes},
	{"other method", method("POST"), twisted, no},
	{"method in another case", method("get"), twisted, no},
	{"header exact", header("x-plan", exact("pro")), twisted, yes},
	{"header exact, other value", header("x-plan", exact("free")), twisted, no},
	{"header present", header("x-plan", isPresent(true)), twisted, yes},
	{"header not absent", header("x-plan", isPresent(false)), twisted, no},
	{"empty header present", header("x-empty", isPresent(true)), twisted, yes},
	{"empty header exact", header("x-empty", exact("")), twisted, yes},
	{"missing header present", header("x-none", isPresent(true)), twisted, no},
	{"missing header absent", header("x-none", isPresent(false)), twisted, yes},
	{"missing header exact", header("x-none", exact("")), twisted, no},
	{"missing header regex", header("x-none", regex("")), twisted, no},
	{"not", not(onPath(prefix("/api"))), twisted, no},
	{"not other", not(onPath(prefix("/v2"))), twisted, unknown},
	{"not not", not(not(method("GET"))), twisted, yes},
	{"not all", not(both(method("GET"), onPath(prefix("/v2")))), twisted, unknown},
	{"none of others", not(onPath(prefix("/v2")), header("x-plan", exact("free"))), twisted, unknown},
	{"none of two, the first holds", not(onPath(prefix("/api")), onPath(prefix("/v2"))), twisted, no},
	{"none of two, the last holds", not(onPath(prefix("/v2")), onPath(prefix("/api"))), twisted, no},
	{"none of two, both hold", not(onPath(prefix("/api")), header("x-plan", exact("pro"))), twisted, no},
	{"not none of two", not(not(onPath(prefix("/v2")), onPath(prefix("/api")))), twisted, unknown},
	{"both", both(method("GET"), onPath(prefix("/api"))), twisted, unknown},
	{"first only", both(method("GET"), onPath(prefix("/v2"))), twisted, no},
	{"second only", both(method("PUT"), onPath(prefix("/api"))), twisted, no},
	{"match but not", both(method("GET"), not(onPath(prefix("/api")))), twisted, no},

	// Paths beyond ASCII.
	{"é, raw", onPath(prefix("/caf%C3%A9/")), get("/caf\xc3\xa9/x"), unknown},
	{"é, escaped", onPath(prefix("/caf%C3%A9/")), get("/caf%C3%A9/x"), yes},
	{"é, escaped in lower case", onPath(prefix("/caf%C3%A9/")), get("/caf%c3%a9/x"), unknown},

	// A request without pseudo headers.
	{"no path", onPath(contains("")), &request{}, no},
	{"no host", onHost(contains("")), &request{}, no},
	{"no method", method(""), &request{}, no},

	// By the client's address.
	{"in a network", clients, from("10.1.2.3:4711"), yes},
	{"its last address", clients, from("10.255.255.255:1"), yes},
	{"after it", clients, from("11.0.0.0:1"), no},
	{"an address", clients, from("192.0.2.7:1"), yes},
	{"the next address", clients, from("192.0.2.8:1"), no},
	{"IPv6", clients, from("[2001:db8:1::1]:1"), yes},
	{"another IPv6", clients, from("[2001:db9::1]:1"), no},
	{"IPv4 in IPv6", clients, from("[::ffff:10.0.0.1]:1"), yes},
	{"no address", clients, from("unix:/tmp/socket"), no},
	{"no attribute", clients, get("/"), no},
	{"not in a network", not(clients), from("10.1.2.3:4711"), no},
	{"not an address", not(clients), from("unix:/tmp/socket"), yes},

	// Only where every upstream reads the same path does a rule exempt by it.
	{"as it is read", health, get("/healthz/live"), yes},
	{"with a query", health, get("/healthz?a=/../b"), yes},
	{"an escape in its one spelling", health, get("/healthz/%C3%A9%20"), yes},
	{"an escape in another", health, get("/healthz/%c3%a9"), unknown},
	{"a byte that should be escaped", health, get("/healthz/\xc3"), unknown},
	{"an escape of a letter", health, get("/%68ealthz"), unknown},
	{"dots", health, get("/api/x/../../healthz"), unknown},
	{"a dot", health, get("/./healthz"), unknown},
	{"escaped dots", health, get("/api/%2e%2e/healthz"), unknown},
	{"slashes", health, get("//healthz"), unknown},
	{"an escaped slash", health, get("/healthz%2F..%2Fapi"), unknown},
	{"an escaped backslash", health, get("/healthz%5C..%5Capi"), unknown},
	{"a backslash", health, get(`/healthz\..\api`), unknown},
	{"a parameter", health, get("/healthz/..;/api"), no},
	{"a fragment", health, get("/healthz#/../api"), unknown},
	{"another path", health, get("/api"), no},
	{"not a path", other, get("/static/a"), yes},
	{"not a path, with dots", other, get("/api/../static"), unknown},
	{"not a path, which it is", other, get("/static/../api"), no},
	{"no path at all", method("GET"), get("/a/../b"), yes},
	{"that there is a path", onPath(isPresent(true)), get("/a/../b"), yes},

	// A method that is not in upper case may be, for the upstream, the one in upper case, or another.
	{"the method", posts, by("POST"), yes},
	{"in lower case", posts, by("post"), unknown},
	{"in mixed case", posts, by("pOSt"), unknown},
	{"another", posts, by("GET"), no},
	{"another in lower case", posts, by("get"), no},
	{"a longer one", posts, by("posts"), no},
	{"not the method", not(posts), by("POST"), no},
	{"not, in lower case", not(posts), by("post"), unknown},
	{"not another", not(posts), by("GET"), yes},
	{"not another in lower case", not(posts), by("get"), unknown},
	{"none of several", not(header("x-none", isPresent(true)), posts), by("Put"), unknown},
	{"and another condition", both(posts, header("x-none", isPresent(true))), by("post"), no},

	// By an expression: what is no bool is not true.
	{"expression: true", byExpr("e"), evaluated, yes},
	{"expression: false", byExpr("no"), evaluated, no},
	{"expression: no bool", byExpr("other"), evaluated, no},
	{"expression: no value", byExpr("error"), evaluated, no},
	{"expression: not true", not(byExpr("e")), evaluated, no},
	{"expression: not false", not(byExpr("no")), evaluated, yes},
	{"expression: not without a value", not(byExpr("error")), evaluated, yes},
	{"expression: beside what holds", both(method("GET"), byExpr("e")), evaluated, yes},
	{"expression: beside what does not", both(method("PUT"), byExpr("e")), evaluated, no},

	// A query parameter or a cookie is compared as a key would read it.
	{"a parameter", queryIs("plan", isPro), get("/a?x=1&plan=pro"), yes},
	{"another value", queryIs("plan", isPro), get("/?plan=free"), no},
	{"no parameter", queryIs("plan", isPro), get("/plan=pro"), no},
	{"no query at all", queryIs("plan", isEmpty), get("/"), no},
	{"a parameter in another case", queryIs("plan", isPro), get("/?Plan=pro"), no},
	{"a parameter, decoded", queryIs("plan", isB), get("/?%70lan=a+b"), yes},
	{"a parameter of another spelling", queryIs("plan", isPro), get("/?plan=p%72o"), yes},
	{"a parameter that a regex finds", queryIs("plan", regex("^p.o$")), get("/?plan=p%72o"), yes},
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
	{"a cookie that a suffix ends", cookieIs("plan", suffix("ro")), cookie("plan=pro"), yes},
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

	// Too long to be looked at, wherever in the match it stands.
	{"unknown", unseen, long, unknown},
	{"unknown, a text", contained, long, unknown},
	{"unknown, not", not(unseen), long, unknown},
	{"unknown, not not", not(not(unseen)), long, unknown},
	{"unknown and holds", both(unseen, holds), long, unknown},
	{"unknown and holds not", both(unseen, holdsNot), long, no},
	{"unknown and not holds", both(unseen, not(holds)), long, no},
	{"unknown and not holds not", both(unseen, not(holdsNot)), long, unknown},
	{"not (unknown and holds)", not(both(unseen, holds)), long, unknown},
	{"not (unknown and holds not)", not(both(unseen, holdsNot)), long, yes},
	{"none of unknown and holds not", not(unseen, holdsNot), long, unknown},
	{"none of unknown and holds", not(unseen, holds), long, no},
	{"none of holds and unknown", not(holds, unseen), long, no},
	{"two unknowns", both(unseen, not(contained)), long, unknown},
	// What takes no look at all of the value is known.
	{"prefix", header("x-long", prefix("aa")), long, yes},
	{"suffix", header("x-long", suffix("b")), long, no},
	{"exact", header("x-long", exact("a")), long, no},
	{"present", header("x-long", isPresent(true)), long, yes},
	{"not present", header("x-long", isPresent(false)), long, no},
	{"the beginning decides, yes", header("x-long", regex("^aa")), long, yes},
	{"the beginning decides, no", header("x-long", regex("^b")), long, no},
	{"after what takes all units", both(unseen, header("x-short", regex("b"))), long, unknown},
	{"long path", onPath(prefix("/b")), longPath, unknown},
	{"long not path", not(onPath(prefix("/b"))), longPath, unknown},
	{"long path present", onPath(isPresent(true)), longPath, unknown},
	{"long path absent", onPath(isPresent(false)), longPath, no},
	{"long host", onHost(exact("b")), longHost, unknown},
	{"long host present", onHost(isPresent(true)), longHost, yes},
	{"long path of another", onPath(prefix("/b")), longHost, no},

	// Repeated with different values.
	{"one of two values", header("x-plan", isPro), twice, unknown},
	{"not one of two values", not(header("x-plan", isPro)), twice, unknown},
	{"none of two values", header("x-plan", exact("other")), twice, unknown},
	{"not none of two values", not(header("x-plan", exact("other"))), twice, unknown},
	{"the name is there", header("x-plan", isPresent(false)), twice, no},
}

func TestMatch(t *testing.T) {
	t.Parallel()
	for _, tt := range matches {
		limiting, exempting := counted("r"), config.Rule{Name: "e", Exempt: true, Match: tt.match}
		limiting.Match = tt.match
		var m Matcher
		_, exempt, _ := compile(t, exempting).Apply(tt.req, &m)
		testenv.Same(t, tt.name+": a rule applies", len(tags(compile(t, limiting), tt.req)) == 1, tt.want != no)
		testenv.Same(t, tt.name+": an exempt rule does", exempt != nil, tt.want == yes)
	}
}

// A rule that matches by a cookie and counts by another reads each of them.
func TestMatchAndKeyOfCookies(t *testing.T) {
	t.Parallel()
	r := counted("r", fromCookie("sid"))
	r.Match = both(cookieIs("plan", op(config.Exact, "pro")), queryIs("sid", op(config.Exact, "b")))
	got := tags(compile(t, r), get("/?sid=b", "cookie", "plan=pro; sid=a%7C"))
	if !slices.Equal(got, []string{"r|a%7C"}) {
		t.Errorf("tags are %q", got)
	}
}
