package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sluiceproxy/sluice/cmd/sluice/shown"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// why says what keeps a rule from applying. It asks the plugin's own rules about
// parts of this one.
func why(c *config.Rule, req *Request) string {
	if !req.meets(config.Rule{Match: c.Match}) {
		for _, part := range parts(&c.Match) {
			if !req.meets(config.Rule{Match: part.match}) {
				because, method := "match."+part.name+" does not hold", req.headers[0][1]
				switch {
				case part.match.Not != nil:
					because = "match." + part.name + " holds"
				case part.name == "methods" && method == "QUERY" && slices.Contains(part.match.Methods, "GET"):
					because += ": QUERY reads as GET does, and is a method of its own (list both)"
				}
				return because + req.valueless()
			}
		}
		return "its match does not hold"
	}
	if c.Exempt {
		path, _, _ := strings.Cut(req.headers[1][1], "?") // as rule.Matcher looks at it before it exempts a request
		if strings.ContainsFunc(shown.Unescape(path, 0), func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return "the path holds a control character, or an escape of one: no such request is exempt"
		}
		if unknown := req.unknown(&c.Match); unknown != "" {
			return "it is not sure that its match holds for the upstream, too: " + unknown
		}
		return "it is not sure that its match holds for the upstream, too: an exempt rule takes only a path as Sluice " +
			"normalises it, a method in upper case, and one value of a header, a query parameter or a cookie"
	}
	for i := range c.Key {
		if !req.meets(config.Rule{Key: c.Key[i : i+1]}) {
			return fmt.Sprintf("key[%d] is absent: %s%s", i, sourceOf(&c.Key[i]), req.valueless())
		}
	}
	if c.Tiers != nil {
		return "limits_by has no tier for it, and no default: " + sourceOf(&c.Tiers.Source) + req.valueless()
	}
	return "it does not apply"
}

// unknown names a value that a match, or its not, compares and that is unknown: "" if there is none.
func (r *Request) unknown(m *config.Match) string {
	for _, source := range []config.Source{config.FromQuery, config.FromCookie, config.FromHeader} {
		for _, named := range m.Named(source) {
			if named.Match.Op == config.Present {
				continue
			}
			component := config.Component{Source: source, Name: named.Name}
			for _, a := range r.probe(config.Rule{Key: []config.Component{component}}) {
				if _, value, _ := strings.Cut(string(a.Tag), "|"); marks[value] != "" {
					return Describe(&component) + " " + marks[value]
				}
			}
		}
	}
	for i := range m.Not {
		if unknown := r.unknown(&m.Not[i]); unknown != "" {
			return unknown
		}
	}
	return ""
}

// Probe is a configuration of one rule. It reads overrides, so that it needs no limits.
func Probe(r config.Rule) *config.Config {
	r.Name, r.Overrides = cmp.Or(r.Name, "probe"), true
	return &config.Config{Rules: []config.Rule{r}}
}

// meets reports whether a rule would apply to the request.
func (r *Request) meets(c config.Rule) bool { return len(r.probe(c)) > 0 }

// probe applies a part of a rule that has been compiled, so that it compiles again.
func (r *Request) probe(c config.Rule) []rule.Applied {
	set, err := rule.Compile(Probe(c), r.expressions)
	if err != nil {
		return nil
	}
	var m rule.Matcher
	r.failed = nil
	applied, _, _ := set.Apply(r, &m)
	return applied
}

// part is one field of a match, or one element of a list of nots.
type part struct {
	name  string
	match config.Match
}

// parts are those of a match. One that the match lacks always holds.
func parts(m *config.Match) []part {
	all := []part{
		{"methods", config.Match{Methods: m.Methods}},
		{"path", config.Match{Path: m.Path}},
		{"host", config.Match{Host: m.Host}},
	}
	for i := range m.Headers {
		all = append(all, part{fmt.Sprintf("headers[%q]", m.Headers[i].Name), config.Match{Headers: m.Headers[i : i+1]}})
	}
	for i := range m.Query {
		all = append(all, part{fmt.Sprintf("query[%q]", m.Query[i].Name), config.Match{Query: m.Query[i : i+1]}})
	}
	for i := range m.Cookies {
		all = append(all, part{fmt.Sprintf("cookies[%q]", m.Cookies[i].Name), config.Match{Cookies: m.Cookies[i : i+1]}})
	}
	all = append(all, part{"client_ip", config.Match{ClientIP: m.ClientIP}})
	for i := range m.Not {
		name := "not"
		if len(m.Not) > 1 {
			name = fmt.Sprintf("not[%d]", i)
		}
		all = append(all, part{name, config.Match{Not: m.Not[i : i+1]}})
	}
	return append(all, part{"expr", config.Match{Expr: m.Expr}})
}

// words say what a component of a key reads, and where it is absent, which flag provides it.
var words = map[config.Source]struct{ value, absent, lacking string }{
	config.FromHeader:   {"the header NAME", "header QUOTED (-H 'NAME: ...')", "the header QUOTED"},
	config.FromCookie:   {"the cookie NAME", "cookie QUOTED (-H 'cookie: NAME=...')", "the cookie QUOTED"},
	config.FromQuery:    {"the query parameter NAME", "query parameter QUOTED", "the query parameter QUOTED"},
	config.FromClientIP: {"the client's address", "client_ip (--client-ip)", ""},
	config.FromPath:     {"the path", "its source", ""},
	config.FromMethod:   {"the method", "its source", ""},
	config.FromHost:     {"the host", "its source", ""},
	config.FromMetadata: {"PATH", "metadata LIST (--metadata)", "the metadata JSON"},
	config.FromProperty: {"PATH", "property PATH (--property PATH=...)", "the property JSON"},
	config.FromBearer:   {"the bearer token", "a bearer token (-H 'authorization: Bearer ...')", "a bearer token"},
	config.FromConstant: {"", "its source", ""},
	config.FromExpr:     {"", "its expression has no value", "a value of its expression"},
}

// named puts a component's name into its words.
func named(text string, c *config.Component) string {
	return strings.NewReplacer("NAME", c.Name, "QUOTED", strconv.Quote(c.Name), "LIST", fmt.Sprintf("%q", c.Path),
		"PATH", strings.Join(c.Path, "."), "JSON", config.PathText(c.Path)).Replace(text)
}

// Lacking names what a request lacks that has no value for a component; "" of what every request has, but for
// a path, which few rules need of one without.
func Lacking(c *config.Component) string { return named(words[c.Source].lacking, c) }

// Describe names a component's value; "" for a constant.
func Describe(c *config.Component) string { return named(words[c.Source].value, c) }

// marks are what stands in an identity for a value that counts as unknown
// (docs/configuration.md, "Repeated values").
var marks = map[string]string{
	"%many": "has several different values",
	"%odd":  "is none that upstreams agree on",
	"%long": "is too long to be read",
}

// sourceOf says where a component gets its value, and which flag provides it.
func sourceOf(c *config.Component) string { return named(words[c.Source].absent, c) }

// Strip takes from a request the headers that Sluice sets, and no client may send.
func (r *Request) Strip(set *rule.Set) {
	r.headers = slices.DeleteFunc(r.headers, func(h [2]string) bool {
		return slices.Contains(set.OverHeaders, config.SameHeader(h[0]))
	})
}
