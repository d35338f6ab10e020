package reach

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/ipaddr"
)

// Warnings are what Unreachable and Odd say.
func Warnings(cfg *config.Config) []config.Mistake { return append(Unreachable(cfg), Odd(cfg)...) }

// Odd names what can never match, keys that count nobody together, exemptions of everybody, and
// secrets that are identities as they are. It says nothing of what may hold for some request.
func Odd(cfg *config.Config) (all []config.Mistake) {
	for i := range cfg.Rules {
		r := &cfg.Rules[i]
		if r.Mode == config.Off {
			continue
		}
		rule := found{path: fmt.Sprintf("rules[%d]", i), all: &all}
		rule.match("match", &r.Match)
		rule.emptyMatch(r)
		rule.key("key", r.Key)
		for k := range r.Limits {
			rule.key(fmt.Sprintf("limits[%d].per", k), r.Limits[k].Per)
		}
		switch {
		case r.Exempt && takesAll(&r.Match):
			rule.say("match", "this exempts every request from all that follows")
		case r.Exempt && slices.ContainsFunc(r.Match.Headers, isUserAgent):
			rule.say("match.headers", "clients choose their user-agent: whoever sends this one is exempt "+
				"(want what clients "+
				"cannot choose, such as client_ip)")
		case !r.Exempt && chargesNothing(r):
			rule.say("cost", "a cost of 0 charges nothing, so that the rule never rejects (want 1, or \"mode\": \"off\")")
		}
	}
	return all
}

// found collects what is odd about one rule.
type found struct {
	path string
	all  *[]config.Mistake
}

func (f *found) say(at, problem string, args ...any) {
	*f.all = append(*f.all, config.Mistake{Path: f.path + "." + at, Problem: fmt.Sprintf(problem, args...)})
}

// oddText is a text in a condition that no request has.
type oddText struct {
	isRegex bool
	pattern *regexp.Regexp // of the configured text
	problem string
}

var oddPaths = []oddText{
	{false, regexp.MustCompile(`\*$`), `"*" is a plain character here, which paths do not have (want ` +
		`{"prefix": "/api/"})`},
	{true, regexp.MustCompile(`\\\?|\[\?\]`), `a path comes without its query, so that this never ` +
		`matches (want "expr", or a ` +
		`condition on the query)`},
	{
		true, regexp.MustCompile(`^([^(]|\([^?])*%([a-f][0-9a-fA-F]|[0-9A-F][a-f])`),
		"escapes that stay in a path are in upper case, so that this never matches (want %%2F for %%2f)",
	},
}

var oddHosts = []oddText{
	{false, regexp.MustCompile(`\*`), `"*" is a plain character here, which hosts do not have (want ` +
		`{"suffix": ".example.com"})`},
	{true, regexp.MustCompile(`:\\?d?[0-9+*]+\$?$`), "a host comes without its port, so that this " +
		"never matches (leave it out)"},
	{
		true, regexp.MustCompile(`^([^\\[(A-Z]|\\.)*[A-Z]`),
		"a host is compared in lower case, so that this never matches (want lower case)",
	},
}

var oddHeaders = []oddText{
	{false, regexp.MustCompile(`^[ \t]|[ \t]$`), "a header's value comes without blanks around it, so " +
		"that this never matches " +
		"(leave them out)"},
}

// texts looks for odd texts in a condition.
func (f *found) texts(at string, m *config.StringMatch, odd []oddText) {
	for _, o := range odd {
		if m != nil && m.Op != config.Present && o.isRegex == (m.Op == config.Regex) && o.pattern.MatchString(m.Value) {
			f.say(at, "%q: "+o.problem, m.Value)
		}
	}
}

// oddExpressions are conditions that never hold, without blanks and with single quotes.
var oddExpressions = []oddText{
	{true, regexp.MustCompile(`^\(*false\)*$`), "it never holds"},
	{true, regexp.MustCompile(`^('[^']*'|[0-9.]+)$`), "it is no condition, and never holds (want one " +
		"such as request.method == 'POST')"},
	{
		true, regexp.MustCompile(`^request\.[a-z_.]+(\['[^']*'\])?$`),
		"its value is no boolean, so that it never holds (want a comparison, such as " +
			"request.headers['x-plan'] == 'free')",
	},
	{
		true, regexp.MustCompile(`request\.method==\(?'[^']*[a-z][^']*'`),
		"methods are in upper case, so that this hardly ever holds (want 'POST' for 'post')",
	},
}

// attribute is one of the request's.
var attribute = regexp.MustCompile(`\brequest\.([a-z_]+)`)

// attributes are those that Envoy has of a request
// (https://www.envoyproxy.io/docs/envoy/v1.40.0/intro/arch_overview/advanced/attributes).
var attributes = strings.Fields("path url_path host scheme method headers referer useragent time id " +
	"protocol query duration " +
	"size total_size")

// match looks for conditions that never hold.
func (f *found) match(at string, m *config.Match) {
	f.texts(at+".path", m.Path, oddPaths)
	f.texts(at+".host", m.Host, oddHosts)
	for i := range m.Headers {
		f.texts(fmt.Sprintf("%s.headers[%q]", at, m.Headers[i].Name), &m.Headers[i].Match, oddHeaders)
	}
	expr := strings.Join(strings.Fields(strings.ReplaceAll(m.Expr, `"`, "'")), "")
	f.texts(at+".expr", &config.StringMatch{Op: config.Regex, Value: expr}, oddExpressions)
	for _, a := range attribute.FindAllStringSubmatch(expr, -1) {
		if !slices.Contains(attributes, a[1]) {
			f.say(at+".expr", "a request has no attribute %q, so that this never holds (want one of %s)", a[1],
				strings.Join(attributes, ", "))
		}
	}
	for i := range m.Not {
		f.match(fmt.Sprintf("%s.not[%d]", at, i), &m.Not[i])
	}
}

// emptyMatch looks for parts of a match, or a match and a key, that exclude each other.
func (f *found) emptyMatch(r *config.Rule) {
	bare := r.Match
	bare.Not = nil
	for i := range r.Match.Not {
		if covers(&r.Match.Not[i], &bare) {
			f.say("match.not", "it excludes all that the rest of the match takes, so that the rule never applies")
		}
	}
	for i := range r.Key {
		k := &r.Key[i]
		isAbsent := func(n config.NamedMatch) bool {
			return n.Name == k.Name && n.Match.Op == config.Present && !n.Match.Present
		}
		if !k.HasDefault && slices.ContainsFunc(r.Match.Named(k.Source), isAbsent) {
			f.say(fmt.Sprintf("key[%d]", i), "the match wants %q to be absent, and the key needs it, so that the rule "+
				"never applies", k.Name)
		}
	}
}

// alone are attributes that are another value for each request or connection.
var alone = []string{"source.port", "request.id", "request.time", "connection.id"}

// key looks for components that count nobody together, that are never there, and that are secrets.
func (f *found) key(at string, key []config.Component) {
	for i := range key {
		k, at := &key[i], fmt.Sprintf("%s[%d]", at, i)
		name := strings.Join(k.Path, ".")
		switch {
		case k.Source == config.FromProperty && slices.Contains(alone, name),
			k.Source == config.FromExpr && slices.Contains(alone, strings.Trim(k.Expr, "() ")):
			f.say(at, "each request or connection has a value of its own, so that nobody is limited (want "+
				"what requests of one "+
				"client have in common)")
		case isSecret(k):
			f.say(at, "a credential stands in the key as it is: Redis, access logs and sluice top show it "+
				"(want \"hash\": true)")
		case k.Source == config.FromQuery && strings.ContainsAny(k.Name, "=&?#"):
			f.say(at, "%q is no name of a query parameter, so that it is never there (want the name alone)", k.Name)
		}
	}
}

// secretNames are parts of names of what lets a client in.
var secretNames = []string{"authorization", "key", "token", "secret", "session", "password", "credential"}

// isSecret reports whether a component is likely a credential, and kept as it is.
func isSecret(c *config.Component) bool {
	if c.Hash {
		return false
	}
	switch c.Source {
	case config.FromBearer, config.FromCookie:
		return true
	case config.FromHeader, config.FromQuery:
		name := strings.ToLower(c.Name)
		return slices.ContainsFunc(secretNames, func(part string) bool { return strings.Contains(name, part) })
	}
	return false
}

func isUserAgent(h config.NamedMatch) bool { return h.Name == "user-agent" }

// takesAll reports whether a match takes every request.
func takesAll(m *config.Match) bool {
	return (m.Path == nil || m.Path.Op == config.Prefix && m.Path.Value == "/") && m.Host == nil && m.Methods == nil &&
		len(m.Headers)+len(m.Query)+len(m.Cookies) == 0 && m.Expr == "" && len(m.Not) == 0 &&
		(m.ClientIP == nil || allAddresses(m.ClientIP))
}

// allAddresses reports whether networks hold every address.
func allAddresses(networks []ipaddr.Prefix) bool {
	has := func(v4 bool) bool {
		return slices.ContainsFunc(networks, func(p ipaddr.Prefix) bool { return p.Bits == 0 && p.Addr.Is4() == v4 })
	}
	return has(true) && has(false)
}

// chargesNothing reports whether no request of a rule is ever charged.
func chargesNothing(r *config.Rule) bool {
	return r.Tiers == nil && r.Cost.IsConstant() && r.Cost.Default == 0 && (r.Settle == nil || r.Settle.Cost == nil) &&
		!slices.ContainsFunc(r.Limits, func(l config.Limit) bool { return l.Cost != nil })
}
