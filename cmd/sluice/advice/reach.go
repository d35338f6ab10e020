package advice

import (
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strings"

	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/ipaddr"
	"github.com/sluiceproxy/sluice/plugin/text"
)

// reach names the earlier rule, if there is one, that exempts or rejects every request of a rule. It proves
// what it says: a regular expression or an expression is compared by its text alone.
func (l *list) reach(at string, cfg *config.Config, r *config.Rule, earlier []config.Rule) {
	for i := range earlier {
		before := &earlier[i]
		if how := ends(cfg, before); how != "" && covers(&before.Match, &r.Match) {
			l.say(at, "rule %q is never reached: rule %q before it %s every request that it would match (want it before "+
				"that rule, or a narrower match there)", r.Name, before.Name, how)
			return
		}
	}
}

// ends says what a rule does to every request that it matches, where nothing after it matters.
func ends(cfg *config.Config, r *config.Rule) string {
	switch {
	case r.Exempt:
		return "exempts"
	case cfg.Mode == config.Shadow || r.Mode != config.Enforce || r.Overrides || r.Tiers != nil || !r.Cost.IsConstant() ||
		r.Cost.Default == 0:
		return ""
	}
	for i := range r.Key {
		if k := &r.Key[i]; k.Source != config.FromConstant && k.Source != config.FromClientIP && !k.HasDefault {
			return "" // some requests lack it
		}
	}
	if slices.ContainsFunc(r.Limits, func(l config.Limit) bool {
		return l.Units == 0 && l.UnitsFrom == nil && l.Cost == nil
	}) {
		return "rejects"
	}
	return ""
}

// covers reports whether every request that b matches is one that a matches.
func covers(a, b *config.Match) bool {
	switch {
	case a.Path != nil && (b.Path == nil || !implies(b.Path, a.Path)),
		a.Host != nil && (b.Host == nil || !implies(b.Host, a.Host)),
		a.Expr != "" && a.Expr != b.Expr,
		a.Methods != nil && (b.Methods == nil || slices.ContainsFunc(b.Methods, func(method string) bool {
			return !slices.Contains(a.Methods, method)
		})),
		a.ClientIP != nil && (b.ClientIP == nil || slices.ContainsFunc(b.ClientIP, func(inner ipaddr.Prefix) bool {
			return !slices.ContainsFunc(a.ClientIP, func(outer ipaddr.Prefix) bool {
				set := ipaddr.NewSet([]ipaddr.Prefix{outer})
				return set.Contains(inner.Addr) && set.Contains(inner.Last())
			})
		})):
		return false
	}
	if !allImplied(b.Headers, a.Headers) || !allImplied(b.Query, a.Query) || !allImplied(b.Cookies, a.Cookies) {
		return false
	}
	for i := range a.Not { // whatever a keeps out must be kept out of b, too
		if !slices.ContainsFunc(b.Not, func(of config.Match) bool { return covers(&of, &a.Not[i]) }) {
			return false
		}
	}
	return true
}

// allImplied reports whether whatever fulfils all of b fulfils all of a.
func allImplied(b, a []config.NamedMatch) bool {
	return !slices.ContainsFunc(a, func(wanted config.NamedMatch) bool {
		return !slices.ContainsFunc(b, func(of config.NamedMatch) bool {
			return of.Name == wanted.Name && implies(&of.Match, &wanted.Match)
		})
	})
}

// implies reports whether every value for which b holds is one for which a does.
func implies(b, a *config.StringMatch) bool {
	switch a.Op {
	case config.Present:
		return a.Present == (b.Op != config.Present || b.Present)
	case config.Regex:
		return *a == *b
	case config.Exact:
		return b.Op == config.Exact && b.Value == a.Value
	case config.Prefix:
		return (b.Op == config.Exact || b.Op == config.Prefix) && strings.HasPrefix(b.Value, a.Value)
	case config.Suffix:
		return (b.Op == config.Exact || b.Op == config.Suffix) && strings.HasSuffix(b.Value, a.Value)
	}
	return b.Op != config.Regex && b.Op != config.Present && strings.Contains(b.Value, a.Value)
}

// evasions says what of a rule helps clients to get around it.
func (l *list) evasions(place string, r *config.Rule) {
	note := func(at, problem string) { l.say(place+at, "rule %q: %s", r.Name, problem) }
	noteEscapes(&r.Match, ".match", note)
	for at, key := range identities(r) { // tokens that identify, in the key and in "per"
		for i := range key {
			if key[i].Source == config.FromBearer {
				note(fmt.Sprintf("%s[%d].bearer", at, i), "a JWT has many spellings that libraries take for one, and each is an "+
					"identity of its own (a claim that jwt_authn has verified has one)")
			}
		}
	}
	if r.Settle == nil {
		return
	}
	if r.Settle.Status != nil && slices.Contains(r.Match.Methods, "POST") &&
		!slices.ContainsFunc(r.Settle.Status, func(s config.StatusRange) bool { return s.First < 400 && s.Last >= 200 }) {
		note(".settle.status", "answers of 2xx and 3xx are not charged, and many applications answer a wrong password "+
			`with 200 or 302 (if yours does, want "expr", or a limit on all attempts beside it)`)
	}
	if r.Settle.Release && r.Settle.Cost != nil {
		note(".settle.missing", `"release" gives an answer away whose client left before its cost came (want "keep" or `+
			`a cost if answers are streams)`)
	}
}

// identities is all that says whose counters a rule is about: its key, and "per" of its limits, those of
// tiers and of "over" too. Each comes with where in the rule it stands.
func identities(r *config.Rule) iter.Seq2[string, []config.Component] {
	return func(yield func(at string, all []config.Component) bool) {
		more := yield(".key", r.Key)
		pers := func(at string, limits []config.Limit) bool {
			for i := range limits {
				more = more && yield(fmt.Sprintf("%s[%d].per", at, i), limits[i].Per)
			}
			return more
		}
		r.Lists(pers)
		if r.Over != nil {
			pers(".over.limits", r.Over.Limits)
		}
	}
}

// escape is one in a regular expression.
var escape = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)

// noteEscapes notes escapes in a path's regular expression that no normalised path has.
func noteEscapes(m *config.Match, at string, note func(path, problem string)) {
	if m.Path != nil && m.Path.Op == config.Regex {
		for _, written := range escape.FindAllString(m.Path.Value, -1) {
			reads := string(text.AppendCanonical(nil, written))
			if c, _ := text.Unescape(written, 0); text.IsControl(c) {
				note(at+".path.regex", written+" is cut off the end of a path before it is compared")
			} else if reads != written {
				note(at+".path.regex", fmt.Sprintf("no normalised path holds %s (want %q)", written, reads))
			}
		}
	}
	for i := range m.Not {
		noteEscapes(&m.Not[i], fmt.Sprintf("%s.not[%d]", at, i), note)
	}
}

// oddities names what can never match, keys that count nobody together, exemptions of everybody, and
// secrets that are identities as they are. It says nothing of what may hold for some request.
func (l *list) oddities(at string, r *config.Rule) {
	l.match(at+".match", &r.Match)
	bare := r.Match
	bare.Not = nil
	for i := range r.Match.Not {
		if covers(&r.Match.Not[i], &bare) {
			l.say(at+".match.not", "it excludes all that the rest of the match takes, so that the rule never applies")
		}
	}
	for i := range r.Key {
		k := &r.Key[i]
		if !k.HasDefault && wantsAbsent(&r.Match, k) {
			l.say(fmt.Sprintf("%s.key[%d]", at, i), "the match wants %q to be absent, and the key needs it, so that the rule "+
				"never applies", k.Name)
		}
	}
	for where, components := range identities(r) {
		l.key(at+where, components)
	}
	switch {
	case r.Exempt && takesAll(&r.Match):
		l.say(at+".match", "this exempts every request from all that follows")
	case r.Exempt && slices.ContainsFunc(r.Match.Headers, func(h config.NamedMatch) bool {
		return h.Name == "user-agent"
	}):
		l.say(at+".match.headers", "clients choose their user-agent: whoever sends this one is exempt (want what clients "+
			"cannot choose, such as client_ip)")
	case !r.Exempt && r.Tiers == nil && r.Cost.IsConstant() && r.Cost.Default == 0 &&
		(r.Settle == nil || r.Settle.Cost == nil) &&
		!slices.ContainsFunc(r.Limits, func(l config.Limit) bool { return l.Cost != nil }):
		l.say(at+".cost", "a cost of 0 charges nothing, so that the rule never rejects (want 1, or \"mode\": \"off\")")
	}
}

// oddText is a text in a condition that no request has.
type oddText struct {
	isRegex bool
	pattern string // a regular expression on the configured text
	problem string
}

var (
	oddPaths = []oddText{
		{false, `\*$`, `"*" is a plain character here, which paths do not have (want {"prefix": "/api/"})`},
		{true, `\\\?|\[\?\]`, `a path comes without its query, so that this never matches (want a condition on "query")`},
		{
			true, `^([^(]|\([^?])*%([a-f][0-9a-fA-F]|[0-9A-F][a-f])`,
			"escapes that stay in a path are in upper case, so that this never matches (want %2F for %2f)",
		},
	}
	oddHosts = []oddText{
		{false, `\*`, `"*" is a plain character here, which hosts do not have (want {"suffix": ".example.com"})`},
		{true, `:\\?d?[0-9+*]+\$?$`, "a host comes without its port, so that this never matches (leave it out)"},
		{true, `^([^\\[(A-Z]|\\.)*[A-Z]`, "a host is compared in lower case, so that this never matches (want lower case)"},
	}
	oddHeaders = []oddText{
		{
			false, `^[ \t]|[ \t]$`,
			"a header's value comes without blanks around it, so that this never matches (leave them out)",
		},
	}
	// oddExpressions are conditions that never hold, without blanks and with single quotes.
	oddExpressions = []oddText{
		{true, `^\(*false\)*$`, "it never holds"},
		{
			true, `^('[^']*'|[0-9.]+)$`,
			"it is no condition, and never holds (want one such as request.method == 'POST')",
		},
		{
			true, `^request\.[a-z_.]+(\['[^']*'\])?$`,
			"its value is no boolean, so that it never holds (want a comparison, such as request.headers['x-plan'] == 'free')",
		},
		{
			true, `request\.method==\(?'[^']*[a-z][^']*'`,
			"methods are in upper case, so that this hardly ever holds (want 'POST' for 'post')",
		},
	}
)

// texts looks for odd texts in a condition.
func (l *list) texts(at string, m *config.StringMatch, odd []oddText) {
	for _, o := range odd {
		if m != nil && m.Op != config.Present && o.isRegex == (m.Op == config.Regex) &&
			regexp.MustCompile(o.pattern).MatchString(m.Value) {
			l.say(at, "%q: %s", m.Value, o.problem)
		}
	}
}

// attribute is one of the request's.
var attribute = regexp.MustCompile(`\brequest\.([a-z_]+)`)

// attributes are those that Envoy has of a request
// (https://www.envoyproxy.io/docs/envoy/v1.40.0/intro/arch_overview/advanced/attributes).
var attributes = strings.Fields("path url_path host scheme method headers referer useragent time id protocol query " +
	"duration size total_size")

// match looks for conditions that never hold.
func (l *list) match(at string, m *config.Match) {
	l.texts(at+".path", m.Path, oddPaths)
	l.texts(at+".host", m.Host, oddHosts)
	for i := range m.Headers {
		l.texts(fmt.Sprintf("%s.headers[%q]", at, m.Headers[i].Name), &m.Headers[i].Match, oddHeaders)
	}
	expr := strings.Join(strings.Fields(strings.ReplaceAll(m.Expr, `"`, "'")), "")
	l.texts(at+".expr", &config.StringMatch{Op: config.Regex, Value: expr}, oddExpressions)
	for _, a := range attribute.FindAllStringSubmatch(expr, -1) {
		if !slices.Contains(attributes, a[1]) {
			l.say(at+".expr", "a request has no attribute %q, so that this never holds (want one of %s)", a[1],
				strings.Join(attributes, ", "))
		}
	}
	for i := range m.Not {
		l.match(fmt.Sprintf("%s.not[%d]", at, i), &m.Not[i])
	}
}

// alone are attributes that are another value for each request or connection.
var alone = []string{"source.port", "request.id", "request.time", "connection.id"}

// key looks for components that count nobody together, that are never there, and that are secrets.
func (l *list) key(at string, key []config.Component) {
	for i := range key {
		k, at := &key[i], fmt.Sprintf("%s[%d]", at, i)
		name := strings.Join(k.Path, ".")
		switch {
		case k.Source == config.FromProperty && slices.Contains(alone, name),
			k.Source == config.FromExpr && slices.Contains(alone, strings.Trim(k.Expr, "() ")):
			l.say(at, "each request or connection has a value of its own, so that nobody is limited (want what requests of "+
				"one client have in common)")
		case !k.Hash && (k.Source == config.FromBearer || k.Source == config.FromCookie ||
			(k.Source == config.FromHeader || k.Source == config.FromQuery) && secretNames.MatchString(k.Name)):
			l.say(at, "a credential stands in the key as it is: Redis, access logs and sluice top show it (want "+
				"\"hash\": true)")
		case k.Source == config.FromQuery && strings.ContainsAny(k.Name, "=&?#"):
			l.say(at, "%q is no name of a query parameter, so that it is never there (want the name alone)", k.Name)
		}
	}
}

// secretNames are parts of names of what lets a client in.
var secretNames = regexp.MustCompile(`(?i)authorization|key|token|secret|session|password|credential`)

// takesAll reports whether a match takes every request.
func takesAll(m *config.Match) bool {
	has := func(v4 bool) bool { // every address of one kind
		return slices.ContainsFunc(m.ClientIP, func(p ipaddr.Prefix) bool { return p.Bits == 0 && p.Addr.Is4() == v4 })
	}
	return (m.Path == nil || m.Path.Op == config.Prefix && m.Path.Value == "/") && m.Host == nil && m.Methods == nil &&
		len(m.Headers)+len(m.Query)+len(m.Cookies) == 0 && m.Expr == "" && len(m.Not) == 0 &&
		(m.ClientIP == nil || has(true) && has(false))
}
