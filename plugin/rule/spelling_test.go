package rule

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// each is a request for each value of what get takes a name of.
func each(name string, values ...string) (all []*request) {
	for _, value := range values {
		all = append(all, get("/", name, value))
	}
	return all
}

// spellings are requests in which some upstream reads one and the same thing, or may do so.
var spellings = []struct {
	name string
	c    string
	want string // the identity of all of them
	reqs []*request
}{
	{"path", `{"path": {"segments": 1}}`, "/a", each(
		":path",
		"/a", "/a/", "/a/b", "//a", "/%61", "/x/../a", "/./a?x", "http://other/a",
		"/a%0A", "/a%00%7F?x", "/a/%0A", // a control character at the end, E2
	)},
	{"reserved characters", `{"path": true}`, "/x:generate/@me/(1)", each(
		":path",
		"/x:generate/@me/(1)", "/x%3Agenerate/%40me/%281%29", "/x%3agenerate/@me/(1%29",
	)},
	{"method", `{"method": true}`, "POST", each(":method", "POST", "post", "Post", "pOST")},
	{"address", `{"client_ip": true}`, "192.0.2.1", append(
		each("source.address", "192.0.2.1:1", "192.0.2.1:2", "[::ffff:192.0.2.1]:3"),
		get("/", "source.address", "192.0.2.1:1", "x-forwarded-for", "198.51.100.1"),
		get("/", "source.address", "192.0.2.1:1", "forwarded", "for=198.51.100.1"),
	)},
	{"header", `{"header": "x-api-key"}`, "k", []*request{
		get("/", "x-api-key", "k"), get("/", "x-api-key", "\t k "), get("/", "x-api-key", "k", "x-api-key2", "l"),
		get("/", "x-api-key", "k", "x-api-key", " k"),
	}},
	{"header host", `{"header": "host"}`, "api.example.com", each(":path", "/")},
	{"repeated header", `{"header": "x-api-key"}`, "%many", []*request{
		get("/", "x-api-key", "k", "x-api-key", "l"), get("/", "x-api-key", "", "x-api-key", "k"),
		get("/", "x-api-key", "k", "x-api-key", "k", "x-api-key", "l"),
	}},
	{
		"first header", `{"header": "x-api-key", "repeated": "first"}`,
		"k",
		[]*request{get("/", "x-api-key", "k", "x-api-key", "l")},
	},
	{"cookie", `{"cookie": "sid", "hash": false}`, "k", append(each(
		"cookie",
		"sid=k", "sid=k; sid=k", "SID=l; sid=k", "sid=%6B", `sid="k"`, "sid =k ", `sid="\153"`, `sid="\k"`,
		`sid=k; sid="%6b"`,
		// White space that some upstream cuts off, E3.
		"sid=k\u00a0", "sid=k\u00a0\u00a0", "sid=\u0085k", "sid=k\u2003", "sid=\u3000k\u1680", "sid=k\u2028\u205f",
		"sid=k\xa0", "sid=\xa0k", "sid=\x85\xa0k\x85", "sid=\v\"k\"\xa0", "sid=k\x1c\x7f",
		"\u00a0sid=k", "\xa0sid=k", "sid\xa0=k", "sid\u3000=k", "\x01sid\x02=k", "@sid,=k", "a=b;\u2003sid=k",
	), get("/", "cookie", "a=b", "cookie", "sid=k", "cookie", "sid=k"))},
	{
		"a character that ends as white space does", `{"cookie": "sid", "hash": false}`,
		"k\u00e0", each("cookie", "sid=k\u00e0", "sid=k\u00e0\xa0"),
	},
	{
		"a character that is not one", `{"cookie": "sid", "hash": false}`,
		"k\ufffd", each("cookie", "sid=k\ufffd", "sid=k\ufffd "),
	},
	{"repeated cookie", `{"cookie": "sid", "hash": false}`, "%many", append(each(
		"cookie",
		"sid=k; sid=l", `sid="x; sid=k`, `sid=a"b; sid=k`, "sid=\\x80; sid=k", "sid=; sid=k", "sid=k; a=b;\xa0sid=l",
	), get("/", "cookie", "a=b; sid=k", "cookie", "sid=l"))},
	{
		"first cookie", `{"cookie": "sid", "hash": false, "repeated": "first"}`,
		"k", each("cookie", "sid=k; sid=l", "a=b; sid=k; sid=l; sid=m"),
	},
	{"parameter", `{"query": "user"}`, "k", each(
		":path",
		"/?user=k", "/?User=l&user=k", "/?user=%6b#user=l", "/a?&user=k", "/?us%65r=k&user=%6B",
	)},
	{"repeated parameter", `{"query": "user"}`, "%many", each(
		":path",
		"/?user=k&user=l", "/?%75ser=k&user=l", "/?user&user=k",
		"/?user=;1&user=k", "/?user=%zz1&user=k", // pairs that Go drops, E5
	)},
	{"first parameter", `{"query": "user", "repeated": "first"}`, "k", each(":path", "/?user=k&user=l")},
	{"bearer", `{"bearer": true, "hash": false}`, "k", each(
		"authorization",
		"Bearer k", "bEARER k", "Bearer   k ", "Bearer k l", "Bearer k,l",
		// What no token has, E4.
		"Bearer k\xa0", "Bearer k\xa0\xa0l", "Bearer\xa0k", "Bearer\x85k", "Bearer \xa0k", "\xa0Bearer k", "x, Bearer k",
		", Bearer k", "Basic x, Bearer k", "Bearer k, bearer k",
	)},
	{"several bearers", `{"bearer": true, "hash": false}`, "%many", append(
		each("authorization", "Bearer k, Bearer l", "Bearer bearer k"),
		get("/", "authorization", "Bearer k", "authorization", "Bearer l"),
		get("/", "authorization", "Basic k", "authorization", "Bearer l"),
	)},
	{"a bearer without a token", `{"bearer": true, "hash": false}`, "%odd", each(
		"authorization",
		"Bearer", "Bearer \xa0", "Basic x, Bearer", "Bearer k, Bearer",
	)},
}

// A client that has spent its limit must not get a new one by sending more of
// what names it, or by spelling it in another way.
func TestSpellingsOfOneIdentity(t *testing.T) {
	t.Parallel()
	for _, tt := range spellings {
		hashed := strings.TrimSuffix(strings.Replace(tt.c, `, "hash": false`, "", 1), "}") + `, "hash": true}`
		set, hashes := compile(t, `"key": [`+tt.c+`]`), compile(t, `"key": [`+hashed+`]`)
		for _, req := range tt.reqs {
			testenv.SameList(t, fmt.Sprint(tt.name, req.headers), tags(set, req), []string{"r|" + tt.want})
			testenv.SameList(t, tt.name+" as a hash", tags(hashes, req), tags(hashes, tt.reqs[0]))
			if marked := strings.HasPrefix(tt.want, "%"); marked {
				testenv.SameList(t, tt.name+" is no hash", tags(hashes, req), []string{"r|" + tt.want})
			}
		}
	}
}

// Marks are no value that a client can write.
func TestMarksAreNoValues(t *testing.T) {
	t.Parallel()
	set := compile(t, `"key": [{"header": "x-api-key"}]`)
	for _, mark := range marks[tooLong:present] {
		testenv.SameList(t, mark, tags(set, get("/", "x-api-key", mark)), []string{"r|%25" + mark[1:]})
	}
}

// What is unknown never helps the client that sends it.
func TestUnknownValues(t *testing.T) {
	t.Parallel()
	twice := get("/", "x-plan", "pro", "x-plan", "free", "x-cost", "1", "x-cost", "2", "x-limit", "1", "x-limit", "900")
	set := compile(t, `"cost": {"header": "x-cost", "default": 1, "max": 50}, `+
		tieredBy(`{"header": "x-plan"}`, `, "none": "unlimited"`, "none"))
	var m Matcher
	applied, _, _ := set.Apply(twice, &m)
	testenv.Same(t, "rules that apply", len(applied), 1)
	testenv.Same(t, "the tier is the first that has limits", applied[0].Limits, set.LimitSets[0])
	testenv.Same(t, "the cost is the largest", applied[0].Cost, 50)

	set = compile(t, `"limits": [{"algorithm": "gcra", "limit": {"header": "x-limit", "default": 10, "max": 1000},
		"window": "1s", "ceiling": {"source": {"header": "x-plan"}, "values": {"pro": 100, "free": 20}, "default": "pro"}}]`)
	applied, _, _ = set.Apply(twice, &m)
	testenv.Same(t, "the limit is its default", applied[0].Sizes[0].Units, 10)
	testenv.Same(t, "the class is the lowest", applied[0].Sizes[0].Ceiling, 20)

	for _, plan := range []string{"pro", "other"} {
		for _, match := range []string{`{"headers": {"x-plan": "%s"}}`, `{"not": {"headers": {"x-plan": "%s"}}}`} {
			match = `"match": ` + fmt.Sprintf(match, plan)
			testenv.SameList(t, "a rule applies", tags(compile(t, match), twice), []string{"r|"})
			_, exempt, _ := compile(t, match+`, "exempt": true`).Apply(twice, &m)
			testenv.Same(t, "no rule exempts", exempt, nil)
		}
	}
	set = compile(t, `"match": {"headers": {"x-plan": {"present": false}}}`)
	testenv.SameList(t, "the name is there", tags(set, twice), nil)
}

// A path with a control character is never exempt, whatever the rule looks at.
func TestControlsAreNotExempt(t *testing.T) {
	t.Parallel()
	for _, match := range []string{
		`{}`, `{"headers": {"x-a": {"present": false}}}`, `{"path": {"prefix": "/"}}`, `{"methods": ["GET"]}`,
		`{"not": {"path": {"regex": "(?i)^/login/?$"}}}`,
	} {
		set := compile(t, `"exempt": true, "match": `+match)
		for _, tt := range []struct {
			target string
			want   bool
		}{
			{"/home", true},
			{"/home?a=%0A", true},
			{"/login%0A", false},
			{"/home%0A", false},
			{"/home%7f?x", false},
			{"/a%00b", false},
			{"/a\x01b", false},
		} {
			var m Matcher
			_, exempt, _ := set.Apply(get(tt.target), &m)
			testenv.Same(t, tt.target+" is exempt", exempt != nil, tt.want)
		}
	}
}

// plainValue is a value that every reader takes as it stands.
var plainValue = regexp.MustCompile(`^[a-z0-9._~-]+$`)

// FuzzSpellings tries to spell a value so that an upstream still reads it: what is around it changes
// nothing, and however often it stands there, it is one identity or a mark.
func FuzzSpellings(f *testing.F) {
	f.Add("k", "\u00a0", "l")
	f.Add("real", "\xa0\x85", "; sid=x")
	f.Add("t.0-_", ", ", "Bearer T")
	f.Fuzz(func(t *testing.T, value, around, other string) {
		if !plainValue.MatchString(value) {
			return
		}
		isItself := func(what, got string) {
			if got != value && got != marks[many] {
				t.Errorf("%s is %q, want %q", what, got, value)
			}
		}
		for _, header := range []string{"sid=" + value + ";" + other, other + ";sid=" + value} {
			isItself("the cookie in "+header, found(cookieValue(nil, header, "sid", false)))
		}
		if trimValue(around) == "" {
			got := found(cookieValue(nil, "sid="+around+value+around, "sid", false))
			testenv.Same(t, "a cookie in white space", got, value)
		}
		query := strings.ReplaceAll(other, "#", "")
		for _, target := range []string{"/?user=" + value + "&" + query, "/?" + query + "&user=" + value} {
			isItself("the parameter in "+target, found(queryValue(nil, target, "user", false)))
		}
		run, _ := nextRun(around)
		if apart := run == "" && around != ""; !apart || strings.EqualFold(value, "bearer") {
			return
		}
		for _, header := range []string{"Bearer" + around + value + around, around + "bearer" + around + value} {
			r := bearerToken(header)
			testenv.Same(t, "the token in "+header, found([]byte(r.value), r.state), value)
		}
	})
}
