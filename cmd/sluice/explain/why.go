package explain

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// why says what keeps a rule from applying. It asks the plugin's own rules about
// parts of this one.
func why(c *config.Rule, req *Request) (string, error) {
	p := prober{req: req}
	if !p.applies(config.Rule{Match: c.Match}) {
		for _, part := range parts(&c.Match) {
			if !p.applies(config.Rule{Match: part.match}) {
				return "match." + part.name + part.verb + part.note(req) + req.valueless(), p.err
			}
		}
		return "its match does not hold", p.err
	}
	if c.Exempt {
		return "it is not sure that its match holds for the upstream, too: " +
			"an exempt rule takes only a path as Sluice normalises it, and a method in upper case", p.err
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

// prober asks whether rules would apply to a request. It keeps the first error.
type prober struct {
	req *Request
	err error
}

// Probe is a configuration of one rule, with the least that a rule has besides what r has.
func Probe(r config.Rule) *config.Config {
	r.Name, r.Cost = cmp.Or(r.Name, "probe"), config.Cost{Default: 1, Max: algo.MaxCost}
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
	verb  string // what it does where the match does not hold
	match config.Match
}

// note explains a part that does not hold.
func (p part) note(req *Request) string {
	method, _ := req.Header(":method")
	if p.name == "methods" && method == "QUERY" && slices.Contains(p.match.Methods, "GET") {
		return ": QUERY reads as GET does, and is a method of its own (list both)"
	}
	return ""
}

func parts(m *config.Match) (all []part) {
	add := func(name string, match config.Match) { all = append(all, part{name, " does not hold", match}) }
	if len(m.Methods) > 0 {
		add("methods", config.Match{Methods: m.Methods})
	}
	if m.Path != nil {
		add("path", config.Match{Path: m.Path})
	}
	if m.Host != nil {
		add("host", config.Match{Host: m.Host})
	}
	for i := range m.Headers {
		add(fmt.Sprintf("headers[%q]", m.Headers[i].Name), config.Match{Headers: m.Headers[i : i+1]})
	}
	if len(m.ClientIP) > 0 {
		add("client_ip", config.Match{ClientIP: m.ClientIP})
	}
	for i := range m.Not {
		name := "not"
		if len(m.Not) > 1 {
			name = fmt.Sprintf("not[%d]", i)
		}
		all = append(all, part{name, " holds", config.Match{Not: m.Not[i : i+1]}})
	}
	if m.Expr != "" {
		add("expr", config.Match{Expr: m.Expr})
	}
	return all
}
