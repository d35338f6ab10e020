// Package worstcase has requests that keep a worker busy as long as a client can
// bring it to, for tests that time them.
package worstcase

import (
	"fmt"
	"strings"
)

// Case is a way in which a client and a configuration can keep a worker
// busy: 16 rules, and 60 KB of headers, the most that Envoy lets pass by default.
type Case struct {
	Name    string
	Headers [][2]string // of the request, pseudo headers included

	rule string // %d is the rule's number
}

// Unread is the case that all others are compared with: of the same size, and
// nothing of it is looked at.
const Unread = "headers that no rule reads"

const most = 58_000 // bytes of one value, which leave room for the rest of a request

func repeat(s string) string { return strings.Repeat(s, most/len(s)) }

// long and path are less: what is longer is not looked at at all.
func long(s string) string { return strings.Repeat(s, 48_000/len(s)) }
func path(s string) string { return strings.Repeat(s, 36_000/len(s)) }

const mozilla = "Mozilla/5.0 (compatible) "

func userAgent(value string) [][2]string { return get("/", "user-agent", value) }

func matching(regex string) string {
	return `"match": {"headers": {"user-agent": {"regex": "` + regex + `"}}}`
}

func keyed(component string) string { return `"key": [` + component + `, {"constant": "%d"}]` }

// Cases are the worst that are known.
var Cases = []Case{
	// A rule without any work.
	{Name: "nothing", rule: `"key": [{"header": "x-id"}]`, Headers: get("/", "x-id", "a")},
	{Name: Unread, rule: `"key": [{"header": "x-id"}]`, Headers: get("/", "x-id", "a", "user-agent", repeat(mozilla))},

	// Requests that cost most to match.
	{
		Name: "a common regex", rule: matching(`(?i)bot|crawl|spider|slurp|curl|wget|python|scrapy|n%d`),
		Headers: userAgent(repeat(mozilla)),
	},
	{
		Name: "a common regex, nearly found", rule: matching(`(?i)bot|crawl|spider|slurp|curl|wget|python|scrapy|n%d`),
		Headers: userAgent(repeat("scrapspidebocrawcur")),
	},
	{
		Name: "a common regex, beyond ASCII", rule: matching(`(?i)bot|crawl|spider|slurp|curl|wget|python|scrapy|n%d`),
		Headers: userAgent(repeat("é")),
	},
	{
		Name: "a large automaton's many states", rule: matching(`(a|b)*a(a|b){7}c%d`),
		Headers: userAgent(repeat("aababbbabaaabbab")),
	},
	{Name: "many threads", rule: matching(`a.{%d0}b%d`), Headers: userAgent(repeat("a"))},
	{
		Name: "many optional parts", rule: matching(`^` + strings.Repeat("a?", 100) + `b%d`),
		Headers: userAgent(repeat("a")),
	},
	{Name: "the largest repetition", rule: matching(`[a-z]{900}%d`), Headers: userAgent(repeat("abc"))},
	{Name: "a class of many ranges", rule: matching(`(\\pL|\\pN){50}%d`), Headers: userAgent(repeat("é"))},
	{Name: "boundaries", rule: matching(`\\b(\\B.{9}\\b)%d`), Headers: userAgent(repeat("abc "))},
	{
		Name: "contains", rule: `"match": {"headers": {"user-agent": {"contains": "` + strings.Repeat("a", 500) + `b%d"}}}`,
		Headers: userAgent(repeat("a")),
	},
	{Name: "a path to normalise", rule: `"match": {"path": {"contains": "b%d"}}`, Headers: get("/" + path("%61"))},
	{Name: "a path of dots", rule: `"match": {"path": {"suffix": "b%d"}}`, Headers: get(path("/a/../b/%2e%2E"))},
	{
		Name:    "a query's value to match",
		rule:    `"match": {"query": {"a": {"contains": "` + strings.Repeat("a", 400) + `b%d"}}}`,
		Headers: get("/?a=" + long("%61")),
	},
	{
		Name: "cookies' names to match", rule: `"match": {"cookies": {"n%d": {"present": false}}}`,
		Headers: get("/", "cookie", long("a=b;")),
	},

	// Requests that cost most to read a key, a cost or a host from.
	{Name: "a path as key", rule: keyed(`{"path": true}`), Headers: get("/" + path("~"))},
	{Name: "segments of a path as key", rule: keyed(`{"path": {"segments": 10%d}}`), Headers: get(path("/a"))},
	{Name: "a query's names", rule: keyed(`{"query": "n%d", "default": "x"}`), Headers: get("/?" + long("%61&"))},
	{Name: "a query's value", rule: keyed(`{"query": "a"}`), Headers: get("/?a=" + long("%61"))},
	{Name: "cookies' names", rule: keyed(`{"cookie": "n%d", "default": "x"}`), Headers: get("/", "cookie", long("a=b;"))},
	{Name: "a cookie's value", rule: keyed(`{"cookie": "a"}`), Headers: get("/", "cookie", "a="+long("%61"))},
	{Name: "a hashed header", rule: keyed(`{"header": "x-id", "hash": true}`), Headers: get("/", "x-id", long("a"))},
	{Name: "a long header", rule: keyed(`{"header": "x-id"}`), Headers: get("/", "x-id", repeat("a"))},
	{Name: "a header to escape", rule: keyed(`{"header": "x-id"}`), Headers: get("/", "x-id", repeat("|"))},
	{Name: "a cost", rule: `"cost": {"header": "x-cost", "max": 10}`, Headers: get("/", "x-cost", repeat("0"))},
	{
		Name: "a host", rule: `"match": {"host": {"contains": "b%d"}}`,
		Headers: [][2]string{{":method", "GET"}, {":path", "/"}, {":authority", path("A")}},
	},
	{Name: "spaces", rule: `"key": [{"header": "x-id"}]`, Headers: get("/", "x-id", repeat(" ")+"a")},
}

// Config is 16 such rules, without Redis.
func (c *Case) Config() string {
	var rules []string
	for n := range 16 {
		rule := strings.ReplaceAll(c.rule, "%d", fmt.Sprint(n))
		rules = append(rules, fmt.Sprintf(`{"name": "r%d", %s, "limits": [{"algorithm": "gcra", "limit": 1000000000, `+
			`"window": "1s"}]}`, n, rule))
	}
	return `{"rules": [` + strings.Join(rules, ",\n") + `]}`
}

// get is a request for a target, with a header if there is one.
func get(target string, header ...string) [][2]string {
	headers := [][2]string{{":method", "GET"}, {":scheme", "http"}, {":authority", "example.com"}, {":path", target}}
	for i := 0; i < len(header); i += 2 {
		headers = append(headers, [2]string{header[i], header[i+1]})
	}
	return headers
}
