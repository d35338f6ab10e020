package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/rule"
	"github.com/sluiceproxy/sluice/plugin/text"
)

// why says what keeps a rule from applying. It asks the plugin's own rules about
// parts of this one.
func why(c *config.Rule, req *Request) (string, error) {
	p := prober{req: req}
	if !p.applies(config.Rule{Match: c.Match}) {
		for _, part := range parts(&c.Match) {
			if !p.applies(config.Rule{Match: part.match}) {
				return part.because(req) + req.valueless(), p.err
			}
		}
		return "its match does not hold", p.err
	}
	if c.Exempt {
		if path, _ := req.Header(":path"); hasControl(path) {
			return "the path holds a control character, or an escape of one: no such request is exempt", p.err
		}
		return "it is not sure that its match holds for the upstream, too: an exempt rule takes only a path as Sluice " +
			"normalises it, a method in upper case, and one value of a header", p.err
	}
	for i := range c.Key {
		if !p.applies(config.Rule{Key: c.Key[i : i+1]}) {
			return fmt.Sprintf("key[%d] is absent: %s%s", i, sourceOf(&c.Key[i]), req.valueless()), p.err
		}
	}
	if c.Tiers != nil {
		return "limits_by has no tier for it, and no default: " + sourceOf(&c.Tiers.Source) + req.valueless(), p.err
	}
	return "it does not apply", p.err
}

// hasControl is what rule.Matcher asks of a path before it exempts a request.
func hasControl(path string) bool {
	path, _, _ = strings.Cut(path, "?")
	for i := range len(path) {
		c := path[i]
		if decoded, ok := text.Unescape(path, i); ok {
			c = decoded
		}
		if text.IsControl(c) {
			return true
		}
	}
	return false
}

// prober asks whether rules would apply to a request. It keeps the first error.
type prober struct {
	req *Request
	err error
}

// Probe is a configuration of one rule, with the least that a rule has besides what r has.
func Probe(r config.Rule) *config.Config {
	r.Name, r.Cost = cmp.Or(r.Name, "probe"), config.Amount{Default: 1, Max: algo.MaxCost}
	r.Limits = []config.Limit{{
		Limit: algo.Limit{Algorithm: algo.GCRA, Units: 1, WindowMicros: 1e6},
		Name:  "probe", Window: "1s",
	}}
	return &config.Config{Rules: []config.Rule{r}}
}

func (p *prober) applies(r config.Rule) bool {
	set, err := rule.Compile(Probe(r), p.req.expressions)
	if err != nil {
		if p.err == nil {
			p.err = err
		}
		return false
	}
	var m rule.Matcher
	p.req.failed = nil
	applied, _ := set.Apply(p.req, &m)
	return len(applied) > 0
}

// part is one field of a match, or one element of a list of nots.
type part struct {
	name  string
	match config.Match
}

// because says what a part does where the match does not hold.
func (p part) because(req *Request) string {
	method, _ := req.Header(":method")
	switch {
	case p.match.Not != nil:
		return "match." + p.name + " holds"
	case p.name == "methods" && method == "QUERY" && slices.Contains(p.match.Methods, "GET"):
		return "match.methods does not hold: QUERY reads as GET does, and is a method of its own (list both)"
	}
	return "match." + p.name + " does not hold"
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
