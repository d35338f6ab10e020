package rule

import (
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

var (
	twisted = get("/x/..//%61pi/a?q=1", ":authority", "API.example.com.:8080", "x-plan", " pro\t", "x-plan", "pro",
		"x-empty", "")
	evaluated             = get("/", "(e\n) == true", "\x01", "(no\n) == true", "\x00", "(other\n) == true", "true")
	twice                 = get("/", "x-plan", "pro", "x-plan", "free")
	long                  = get("/", "x-long", overlong, "x-short", "b")
	longPath, longHost    = get("/" + overlong), get("/", ":authority", overlong)
	longQuery, longCookie = get("/?" + overlong + "&plan=pro"), get("/", "cookie", overlong+"; plan=pro")
)

const networks = `["10.0.0.0/8", "2001:db8::/32", "192.0.2.7"]`

// yes, no, unknown: whether a match holds. What cannot be known makes a rule apply, and an exempt one not.
const yes, no, unknown = "yes", "no", "unknown"

var matches = []struct {
	name  string
	match string
	req   *request
	want  string
}{
	// Of a request whose path is not written as it is read, so that no rule exempts by it.
	{"everything", `{}`, twisted, yes},
	{"path exact", `{"path": "/api/a"}`, twisted, unknown},
	{"path exact prefix", `{"path": "/api"}`, twisted, no},
	{"path prefix", `{"path": {"prefix": "/api/"}}`, twisted, unknown},
	{"path prefix raw", `{"path": {"prefix": "/x/"}}`, twisted, no},
	{"path suffix", `{"path": {"suffix": "pi/a"}}`, twisted, unknown},
	{"path suffix with query", `{"path": {"suffix": "q=1"}}`, twisted, no},
	{"path contains", `{"path": {"contains": "pi/"}}`, twisted, unknown},
	{"path contains not", `{"path": {"contains": "x"}}`, twisted, no},
	{"path regex", `{"path": {"regex": "^/(api|v[0-9]+)/"}}`, twisted, unknown},
	{"path regex anywhere", `{"path": {"regex": "p."}}`, twisted, unknown},
	{"path regex not", `{"path": {"regex": "^api"}}`, twisted, no},
	{"path present", `{"path": {"present": true}}`, twisted, yes},
	{"path absent", `{"path": {"present": false}}`, twisted, no},
	{"host exact", `{"host": "api.example.com"}`, twisted, yes},
	{"host exact, fully qualified", `{"host": "api.example.com."}`, twisted, yes},
	{"host exact not", `{"host": "example.com"}`, twisted, no},
	{"host prefix", `{"host": {"prefix": "api."}}`, twisted, yes},
	{"host suffix", `{"host": {"suffix": ".example.com"}}`, twisted, yes},
	{"host regex", `{"host": {"regex": "^[a-z.]+$"}}`, twisted, yes},
	{"method", `{"methods": ["POST", "GET"]}`, twisted, yes},
	{"other method", `{"methods": ["POST"]}`, twisted, no},
	{"method in another case", `{"methods": ["get"]}`, twisted, yes},
	{"header exact", `{"headers": {"x-plan": "pro"}}`, twisted, yes},
	{"header exact, other value", `{"headers": {"x-plan": "free"}}`, twisted, no},
	{"header present", `{"headers": {"x-plan": {"present": true}}}`, twisted, yes},
	{"header not absent", `{"headers": {"x-plan": {"present": false}}}`, twisted, no},
	{"empty header present", `{"headers": {"x-empty": {"present": true}}}`, twisted, yes},
	{"empty header exact", `{"headers": {"x-empty": ""}}`, twisted, yes},
	{"missing header present", `{"headers": {"x-none": {"present": true}}}`, twisted, no},
	{"missing header absent", `{"headers": {"x-none": {"present": false}}}`, twisted, yes},
	{"missing header exact", `{"headers": {"x-none": ""}}`, twisted, no},
	{"missing header regex", `{"headers": {"x-none": {"regex": "^"}}}`, twisted, no},
	{"not", `{"not": {"path": {"prefix": "/api"}}}`, twisted, no},
	{"not other", `{"not": {"path": {"prefix": "/v2"}}}`, twisted, unknown},
	{"not not", `{"not": {"not": {"methods": ["GET"]}}}`, twisted, yes},
	{"not all", `{"not": {"methods": ["GET"], "path": {"prefix": "/v2"}}}`, twisted, unknown},
	{"none of others", `{"not": [{"path": {"prefix": "/v2"}}, {"headers": {"x-plan": "free"}}]}`, twisted, unknown},
	{"none of two, the first holds", `{"not": [{"path": {"prefix": "/api"}}, {"path": {"prefix": "/v2"}}]}`, twisted, no},
	{"none of two, the last holds", `{"not": [{"path": {"prefix": "/v2"}}, {"path": {"prefix": "/api"}}]}`, twisted, no},
	{"none of two, both hold", `{"not": [{"path": {"prefix": "/api"}}, {"headers": {"x-plan": "pro"}}]}`, twisted, no},
	{"not none of two", `{"not": {"not": [{"path": {"prefix": "/v2"}}, {"path": {"prefix": "/api"}}]}}`, twisted, unknown},
	{"both", `{"methods": ["GET"], "path": {"prefix": "/api"}}`, twisted, unknown},
	{"first only", `{"methods": ["GET"], "path": {"prefix": "/v2"}}`, twisted, no},
	{"second only", `{"methods": ["PUT"], "path": {"prefix": "/api"}}`, twisted, no},
	{"match but not", `{"methods": ["GET"], "not": {"path": {"prefix": "/api"}}}`, twisted, no},

	// Paths beyond ASCII.
	{"é, raw", `{"path": {"prefix": "/caf%C3%A9/"}}`, get("/caf\xc3\xa9/x"), unknown},
	{"é, escaped", `{"path": {"prefix": "/caf%C3%A9/"}}`, get("/caf%C3%A9/x"), yes},
	{"é, escaped in lower case", `{"path": {"prefix": "/caf%C3%A9/"}}`, get("/caf%c3%a9/x"), unknown},

	// A request without pseudo headers.
	{"no path", `{"path": {"regex": "^"}}`, &request{}, no},
	{"no host", `{"host": {"regex": "^"}}`, &request{}, no},
	{"no method", `{"methods": ["GET"]}`, &request{}, no},

	// By the client's address.
	{"in a network", `{"client_ip": ` + networks + `}`, get("/", "source.address", "10.1.2.3:4711"), yes},
	{"its last address", `{"client_ip": ` + networks + `}`, get("/", "source.address", "10.255.255.255:1"), yes},
	{"after it", `{"client_ip": ` + networks + `}`, get("/", "source.address", "11.0.0.0:1"), no},
	{"an address", `{"client_ip": ` + networks + `}`, get("/", "source.address", "192.0.2.7:1"), yes},
	{"the next address", `{"client_ip": ` + networks + `}`, get("/", "source.address", "192.0.2.8:1"), no},
	{"IPv6", `{"client_ip": ` + networks + `}`, get("/", "source.address", "[2001:db8:1::1]:1"), yes},
	{"another IPv6", `{"client_ip": ` + networks + `}`, get("/", "source.address", "[2001:db9::1]:1"), no},
	{"IPv4 in IPv6", `{"client_ip": ` + networks + `}`, get("/", "source.address", "[::ffff:10.0.0.1]:1"), yes},
	{"no address", `{"client_ip": ` + networks + `}`, get("/", "source.address", "unix:/tmp/socket"), no},
	{"no attribute", `{"client_ip": ` + networks + `}`, get("/"), no},
	{"not in a network", `{"not": {"client_ip": ` + networks + `}}`, get("/", "source.address", "10.1.2.3:4711"), no},
	{"not an address", `{"not": {"client_ip": ` + networks + `}}`, get("/", "source.address", "unix:/tmp/socket"), yes},

	// Only where every upstream reads the same path does a rule exempt by it.
	{"as it is read", `{"path": {"prefix": "/healthz"}}`, get("/healthz/live"), yes},
	{"with a query", `{"path": {"prefix": "/healthz"}}`, get("/healthz?a=/../b"), yes},
	{"an escape in its one spelling", `{"path": {"prefix": "/healthz"}}`, get("/healthz/%C3%A9%20"), yes},
	{"an escape in another", `{"path": {"prefix": "/healthz"}}`, get("/healthz/%c3%a9"), unknown},
	{"a byte that should be escaped", `{"path": {"prefix": "/healthz"}}`, get("/healthz/\xc3"), unknown},
	{"an escape of a letter", `{"path": {"prefix": "/healthz"}}`, get("/%68ealthz"), unknown},
	{"dots", `{"path": {"prefix": "/healthz"}}`, get("/api/x/../../healthz"), unknown},
	{"a dot", `{"path": {"prefix": "/healthz"}}`, get("/./healthz"), unknown},
	{"escaped dots", `{"path": {"prefix": "/healthz"}}`, get("/api/%2e%2e/healthz"), unknown},
	{"slashes", `{"path": {"prefix": "/healthz"}}`, get("//healthz"), unknown},
	{"an escaped slash", `{"path": {"prefix": "/healthz"}}`, get("/healthz%2F..%2Fapi"), unknown},
	{"an escaped backslash", `{"path": {"prefix": "/healthz"}}`, get("/healthz%5C..%5Capi"), unknown},
	{"a backslash", `{"path": {"prefix": "/healthz"}}`, get(`/healthz\..\api`), unknown},
	{"a parameter", `{"path": {"prefix": "/healthz"}}`, get("/healthz/..;/api"), no},
	{"a fragment", `{"path": {"prefix": "/healthz"}}`, get("/healthz#/../api"), unknown},
	{"another path", `{"path": {"prefix": "/healthz"}}`, get("/api"), no},
	{"not a path", `{"not": {"path": {"prefix": "/api"}}}`, get("/static/a"), yes},
	{"not a path, with dots", `{"not": {"path": {"prefix": "/api"}}}`, get("/api/../static"), unknown},
	{"not a path, which it is", `{"not": {"path": {"prefix": "/api"}}}`, get("/static/../api"), no},
	{"no path at all", `{"methods": ["GET"]}`, get("/a/../b"), yes},
	{"that there is a path", `{"path": {"present": true}}`, get("/a/../b"), yes},

	// A method that is not in upper case may be, for the upstream, the one in upper case, or another.
	{"the method", `{"methods": ["PUT", "POST"]}`, get("/", ":method", "POST"), yes},
	{"in lower case", `{"methods": ["PUT", "POST"]}`, get("/", ":method", "post"), unknown},
	{"in mixed case", `{"methods": ["PUT", "POST"]}`, get("/", ":method", "pOSt"), unknown},
	{"another", `{"methods": ["PUT", "POST"]}`, get("/", ":method", "GET"), no},
	{"another in lower case", `{"methods": ["PUT", "POST"]}`, get("/", ":method", "get"), no},
	{"a longer one", `{"methods": ["PUT", "POST"]}`, get("/", ":method", "posts"), no},
	{"not the method", `{"not": {"methods": ["PUT", "POST"]}}`, get("/", ":method", "POST"), no},
	{"not, in lower case", `{"not": {"methods": ["PUT", "POST"]}}`, get("/", ":method", "post"), unknown},
	{"not another", `{"not": {"methods": ["PUT", "POST"]}}`, get("/", ":method", "GET"), yes},
	{"not another in lower case", `{"not": {"methods": ["PUT", "POST"]}}`, get("/", ":method", "get"), unknown},
	{
		"none of several", `{"not": [{"headers": {"x-none": {"present": true}}}, {"methods": ["PUT", "POST"]}]}`,
		get("/", ":method", "Put"), unknown,
	},
	{
		"and another condition", `{"methods": ["PUT", "POST"], "headers": {"x-none": {"present": true}}}`,
		get("/", ":method", "post"), no,
	},

	// By an expression: what is no bool is not true.
	{"expression: true", `{"expr": "e"}`, evaluated, yes},
	{"expression: false", `{"expr": "no"}`, evaluated, no},
	{"expression: no bool", `{"expr": "other"}`, evaluated, no},
	{"expression: no value", `{"expr": "error"}`, evaluated, no},
	{"expression: not true", `{"not": {"expr": "e"}}`, evaluated, no},
	{"expression: not false", `{"not": {"expr": "no"}}`, evaluated, yes},
	{"expression: not without a value", `{"not": {"expr": "error"}}`, evaluated, yes},
	{"expression: beside what holds", `{"methods": ["GET"], "expr": "e"}`, evaluated, yes},
	{"expression: beside what does not", `{"methods": ["PUT"], "expr": "e"}`, evaluated, no},

	// A query parameter or a cookie is compared as a key would read it.
	{"a parameter", `{"query": {"plan": "pro"}}`, get("/a?x=1&plan=pro"), yes},
	{"another value", `{"query": {"plan": "pro"}}`, get("/?plan=free"), no},
	{"no parameter", `{"query": {"plan": "pro"}}`, get("/plan=pro"), no},
	{"no query at all", `{"query": {"plan": ""}}`, get("/"), no},
	{"a parameter in another case", `{"query": {"plan": "pro"}}`, get("/?Plan=pro"), no},
	{"a parameter, decoded", `{"query": {"plan": "a b"}}`, get("/?%70lan=a+b"), yes},
	{"a parameter of another spelling", `{"query": {"plan": "pro"}}`, get("/?plan=p%72o"), yes},
	{"a parameter that a regex finds", `{"query": {"plan": {"regex": "^p.o$"}}}`, get("/?plan=p%72o"), yes},
	{"a parameter without a value", `{"query": {"plan": ""}}`, get("/?plan"), yes},
	{"a parameter twice, the same", `{"query": {"plan": "pro"}}`, get("/?plan=pro&plan=%70ro"), yes},
	{"a parameter twice", `{"query": {"plan": "pro"}}`, get("/?plan=free&plan=pro"), unknown},
	{"a parameter twice, not it", `{"query": {"plan": "pro"}}`, get("/?plan=a&plan=b"), unknown},
	{"not a parameter that is there twice", `{"not": {"query": {"plan": "pro"}}}`, get("/?plan=a&plan=b"), unknown},
	{"not a parameter", `{"not": {"query": {"plan": "pro"}}}`, get("/?plan=free"), yes},
	{"a parameter is there", `{"query": {"plan": {"present": true}}}`, get("/?plan"), yes},
	{"a parameter is there, empty", `{"query": {"plan": {"present": true}}}`, get("/?plan="), yes},
	{"a parameter is there twice", `{"query": {"plan": {"present": true}}}`, get("/?plan=a&plan=b"), yes},
	{
		"a parameter that is there twice is not absent", `{"query": {"plan": {"present": false}}}`,
		get("/?plan=a&plan=b"), no,
	},
	{"a parameter is absent", `{"query": {"plan": {"present": false}}}`, get("/?a=plan"), yes},
	{"a long query", `{"query": {"plan": "pro"}}`, longQuery, unknown},
	{"a long query, not", `{"not": {"query": {"plan": "pro"}}}`, longQuery, unknown},
	{"a long query, present", `{"query": {"plan": {"present": true}}}`, longQuery, unknown},
	{"a long query, absent", `{"query": {"none": {"present": false}}}`, longQuery, unknown},
	{"a cookie", `{"cookies": {"plan": "pro"}}`, get("/", "cookie", "a=b; plan=pro"), yes},
	{
		"a cookie in a field of its own", `{"cookies": {"plan": "pro"}}`,
		get("/", "cookie", "a=b", "cookie", "plan=pro"), yes,
	},
	{"a cookie of another value", `{"cookies": {"plan": "pro"}}`, get("/", "cookie", "plan=free"), no},
	{"no cookies", `{"cookies": {"plan": "pro"}}`, get("/"), no},
	{"a cookie in another case", `{"cookies": {"plan": "pro"}}`, get("/", "cookie", "PLAN=pro"), no},
	{"a cookie in quotes", `{"cookies": {"plan": "pro"}}`, get("/", "cookie", `plan="p\162o"`), yes},
	{"a cookie with blanks around", `{"cookies": {"plan": "pro"}}`, get("/", "cookie", "plan =\u00a0pro "), yes},
	{"a cookie, decoded", `{"cookies": {"plan": "a b"}}`, get("/", "cookie", "plan=a%20b"), yes},
	{"an empty cookie", `{"cookies": {"plan": ""}}`, get("/", "cookie", "plan="), yes},
	{"a cookie that a suffix ends", `{"cookies": {"plan": {"suffix": "ro"}}}`, get("/", "cookie", "plan=pro"), yes},
	{"a cookie twice, the same", `{"cookies": {"plan": "pro"}}`, get("/", "cookie", "plan=pro; plan=%70ro"), yes},
	{"a cookie twice", `{"cookies": {"plan": "pro"}}`, get("/", "cookie", "plan=pro", "cookie", "plan=free"), unknown},
	{
		"not a cookie that is there twice", `{"not": {"cookies": {"plan": "pro"}}}`,
		get("/", "cookie", "plan=a; plan=b"), unknown,
	},
	{"a cookie is there twice", `{"cookies": {"plan": {"present": true}}}`, get("/", "cookie", "plan=a; plan=b"), yes},
	{"a cookie is absent", `{"cookies": {"plan": {"present": false}}}`, get("/", "cookie", "plans=a"), yes},
	{"long cookies", `{"cookies": {"plan": "pro"}}`, longCookie, unknown},
	{"long cookies, absent", `{"cookies": {"none": {"present": false}}}`, longCookie, unknown},
	{"both", `{"query": {"plan": "pro"}, "cookies": {"plan": "pro"}}`, get("/?plan=pro", "cookie", "plan=pro"), yes},
	{
		"one of both", `{"query": {"plan": "pro"}, "cookies": {"plan": "pro"}}`,
		get("/?plan=pro", "cookie", "plan=free"), no,
	},
	{
		"one of both, the other unknown", `{"query": {"plan": "pro"}, "cookies": {"plan": "pro"}}`,
		get("/?plan=pro", "cookie", "plan=a; plan=pro"), unknown,
	},
	{
		"neither, one unknown", `{"query": {"plan": "pro"}, "cookies": {"plan": "pro"}}`,
		get("/?plan=free", "cookie", "plan=a; plan=pro"), no,
	},

	// Too long to be looked at, wherever in the match it stands.
	{"unknown", `{"headers": {"x-long": {"regex": "b"}}}`, long, unknown},
	{"unknown, a text", `{"headers": {"x-long": {"contains": "b"}}}`, long, unknown},
	{"unknown, not", `{"not": {"headers": {"x-long": {"regex": "b"}}}}`, long, unknown},
	{"unknown, not not", `{"not": {"not": {"headers": {"x-long": {"regex": "b"}}}}}`, long, unknown},
	{"unknown and holds", `{"methods": ["GET"], "headers": {"x-long": {"regex": "b"}}}`, long, unknown},
	{"unknown and holds not", `{"headers": {"x-long": {"regex": "b"}, "x-none": "a"}}`, long, no},
	{"unknown and not holds", `{"headers": {"x-long": {"regex": "b"}}, "not": {"methods": ["GET"]}}`, long, no},
	{
		"unknown and not holds not", `{"headers": {"x-long": {"regex": "b"}}, "not": {"headers": {"x-none": "a"}}}`,
		long, unknown,
	},
	{"not (unknown and holds)", `{"not": {"methods": ["GET"], "headers": {"x-long": {"regex": "b"}}}}`, long, unknown},
	{"not (unknown and holds not)", `{"not": {"headers": {"x-long": {"regex": "b"}, "x-none": "a"}}}`, long, yes},
	{
		"none of unknown and holds not", `{"not": [{"headers": {"x-long": {"regex": "b"}}}, {"headers": {"x-none": "a"}}]}`,
		long, unknown,
	},
	{"none of unknown and holds", `{"not": [{"headers": {"x-long": {"regex": "b"}}}, {"methods": ["GET"]}]}`, long, no},
	{"none of holds and unknown", `{"not": [{"methods": ["GET"]}, {"headers": {"x-long": {"regex": "b"}}}]}`, long, no},
	{
		"two unknowns", `{"headers": {"x-long": {"regex": "b"}}, "not": {"headers": {"x-long": {"contains": "b"}}}}`,
		long, unknown,
	},
	// What takes no look at all of the value is known.
	{"prefix", `{"headers": {"x-long": {"prefix": "aa"}}}`, long, yes},
	{"suffix", `{"headers": {"x-long": {"suffix": "b"}}}`, long, no},
	{"exact", `{"headers": {"x-long": "a"}}`, long, no},
	{"present", `{"headers": {"x-long": {"present": true}}}`, long, yes},
	{"not present", `{"headers": {"x-long": {"present": false}}}`, long, no},
	{"the beginning decides, yes", `{"headers": {"x-long": {"regex": "^aa"}}}`, long, yes},
	{"the beginning decides, no", `{"headers": {"x-long": {"regex": "^b"}}}`, long, no},
	{"after what takes all units", `{"headers": {"x-long": {"regex": "b"}, "x-short": {"regex": "b"}}}`, long, unknown},
	{"long path", `{"path": {"prefix": "/b"}}`, longPath, unknown},
	{"long not path", `{"not": {"path": {"prefix": "/b"}}}`, longPath, unknown},
	{"long path present", `{"path": {"present": true}}`, longPath, unknown},
	{"long path absent", `{"path": {"present": false}}`, longPath, no},
	{"long host", `{"host": "b"}`, longHost, unknown},
	{"long host present", `{"host": {"present": true}}`, longHost, yes},
	{"long path of another", `{"path": {"prefix": "/b"}}`, longHost, no},

	// Repeated with different values.
	{"one of two values", `{"headers": {"x-plan": "pro"}}`, twice, unknown},
	{"not one of two values", `{"not": {"headers": {"x-plan": "pro"}}}`, twice, unknown},
	{"none of two values", `{"headers": {"x-plan": "other"}}`, twice, unknown},
	{"not none of two values", `{"not": {"headers": {"x-plan": "other"}}}`, twice, unknown},
	{"the name is there", `{"headers": {"x-plan": {"present": false}}}`, twice, no},
}

func TestMatch(t *testing.T) {
	t.Parallel()
	for _, tt := range matches {
		var m Matcher
		_, exempt, _ := compile(t, `"exempt": true, "match": `+tt.match).Apply(tt.req, &m)
		testenv.Same(t, tt.name+": a rule applies", len(tags(compile(t, `"match": `+tt.match), tt.req)) == 1, tt.want != no)
		testenv.Same(t, tt.name+": an exempt rule does", exempt != nil, tt.want == yes)
	}
}

// A rule that matches by a cookie and counts by another reads each of them.
func TestMatchAndKeyOfCookies(t *testing.T) {
	t.Parallel()
	set := compile(t, `"key": [{"cookie": "sid", "hash": false}],
		"match": {"cookies": {"plan": "pro"}, "query": {"sid": "b"}}`)
	testenv.SameList(t, "tags", tags(set, get("/?sid=b", "cookie", "plan=pro; sid=a%7C")), []string{"r|a%7C"})
}
