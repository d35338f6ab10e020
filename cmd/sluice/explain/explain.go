package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/redis"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// Rule says what one rule does with a request.
type Rule struct {
	Rule string `json:"rule"`
	Mode string `json:"mode"` // "enforce", "shadow", "off" or "exempt"
	// Failure is the rule's own failure mode; "" where it is the configuration's.
	Failure string `json:"failure,omitempty"`
	Applies bool   `json:"applies"`
	// Reports: the request is for the quota, which shows what is left of this rule's limits. Nothing
	// is charged.
	Reports bool   `json:"reports,omitempty"`
	Why     string `json:"why,omitempty"` // why it does not apply

	Identity  string  `json:"identity,omitempty"`
	Tag       string  `json:"tag,omitempty"` // "<rule>|<identity>", in the braces of the keys
	Cost      int64   `json:"cost"`
	Tier      string  `json:"tier,omitempty"`
	Unlimited bool    `json:"unlimited,omitempty"`
	Limits    []Limit `json:"limits,omitempty"`
	// OverrideKey is the key in Redis under which an operator sets an override for
	// the identity; "" if the rule has no overrides.
	OverrideKey string `json:"override_key,omitempty"`
	// Contract is the setting of the override that a file has for the identity; "" if it has none. The
	// tier and the limits are those that it makes.
	Contract string `json:"contract,omitempty"`
	// Over is the fate of requests that the rule rejects; nil: a 429.
	Over *Over `json:"over,omitempty"`
	// ChargedBy are the rules that charge this one, which is a purse: it is asked if one of them
	// is over.
	ChargedBy []string `json:"charged_by,omitempty"`
	// Applied is the result of the plugin's own rules; nil if the rule does not apply.
	Applied *rule.Applied `json:"-"`
}

// Limit is one limit of a rule that applies.
type Limit struct {
	Name      string `json:"name"`
	Algorithm string `json:"algorithm"`
	Limit     int64  `json:"limit"`
	Window    string `json:"window"`
	Capacity  int64  `json:"capacity"`
	Cost      *int64 `json:"cost,omitempty"` // of this limit, if it is not the rule's
	Key       string `json:"key,omitempty"`  // in Redis
	// Per are the values that a limit with "per" counts, as in its key, and Ceiling the percent of
	// the capacity that are there for the request's class.
	Per       string `json:"per,omitempty"`
	Ceiling   int64  `json:"ceiling,omitempty"`
	Guarantee bool   `json:"guarantee,omitempty"`
}

// Explain goes through all rules of a configuration, in order.
func Explain(cfg *config.Config, req *Request) ([]Rule, error) { return Under(nil, cfg, req) }

// Under is Explain with contracts in force: the settings of overrides, by tag.
func Under(contracts map[string]string, cfg *config.Config, req *Request) ([]Rule, error) {
	var expressions Expressions
	set, err := rule.Compile(cfg, &expressions)
	if err != nil {
		return nil, err
	}
	req.Use(&expressions)
	req.Strip(set)
	var m rule.Matcher
	var applied []rule.Applied
	var exempt *rule.Rule
	asking := rule.NotForQuota
	if set.AnswersQuota() {
		applied, exempt, asking = set.ApplyQuota(req, &m)
	} else {
		applied, exempt = set.Apply(req, &m)
	}
	prefix := ""
	if cfg.Redis != nil {
		prefix = cfg.Redis.KeyPrefix
	}
	var all []Rule
	ended := "" // the exempt rule that matched
	for i := range cfg.Rules {
		c := &cfg.Rules[i]
		out := Rule{Rule: c.Name, Mode: mode(c), Over: overOf(c), ChargedBy: chargedBy(cfg, c)}
		if !c.Exempt && !c.Only && c.Failure != cfg.Failure.Mode {
			out.Failure = c.Failure.String()
		}
		a := find(applied, c.Name)
		if c.Only {
			a = purse(set, req, c.Name)
		}
		switch {
		case c.Mode == config.Off:
			out.Why = "its mode is off"
		case ended != "" && !c.Only:
			out.Why = fmt.Sprintf("it comes after the exempt rule %q, which matches", ended)
		case exempt != nil && exempt.Name == c.Name:
			out.Applies, ended = true, c.Name
		case a != nil:
			out.Contract = contracts[string(a.Tag)]
			if out.Contract != "" {
				agreed := under(out.Contract, set, req, a)
				a = &agreed
			}
			out.describe(c, a, prefix)
		case asking != rule.NotForQuota && out.ofQuota(cfg, c, asking):
		default:
			why, err := why(asked(cfg, c, asking), req)
			if err != nil {
				return nil, err
			}
			out.Why = why
		}
		all = append(all, out)
	}
	return all, nil
}

// ofQuota explains what a request for the quota makes of a rule that does not apply. It reports
// whether it does.
func (r *Rule) ofQuota(cfg *config.Config, c *config.Rule, asking rule.Asking) (explained bool) {
	switch {
	case c.Exempt:
		r.Why = "the request is for the quota, where exempt rules change nothing"
	case asking == rule.ByAnotherMethod && lists(cfg, c):
		r.Why = "the request is for the quota, which is read by GET or HEAD: it is answered with 405"
	}
	return r.Why != ""
}

// asked is the rule as it is asked: for the quota whatever its match is, if it is listed.
func asked(cfg *config.Config, c *config.Rule, asking rule.Asking) *config.Rule {
	if asking == rule.NotForQuota || !lists(cfg, c) {
		return c
	}
	unmatched := *c
	unmatched.Match = config.Match{}
	return &unmatched
}

// lists reports whether the quota shows a rule.
func lists(cfg *config.Config, c *config.Rule) bool {
	return slices.ContainsFunc(cfg.Quota.Rules, func(i int) bool { return &cfg.Rules[i] == c })
}

func mode(c *config.Rule) string {
	switch {
	case c.Exempt:
		return "exempt"
	case c.Mode == config.Shadow:
		return "shadow"
	case c.Mode == config.Off:
		return "off"
	}
	return "enforce"
}

// find returns what applies of a rule; rules have unique names.
func find(applied []rule.Applied, name string) *rule.Applied {
	for i := range applied {
		if applied[i].Rule.Name == name {
			return &applied[i]
		}
	}
	return nil
}

// describe fills in what applies.
func (r *Rule) describe(c *config.Rule, a *rule.Applied, prefix string) {
	r.Applies, r.Tag, r.Cost, r.Applied = true, string(a.Tag), a.Cost, a
	r.Reports = a.Rule.Report != rule.Decides
	// A tag is the name and the identity, with the first "|" between them.
	_, r.Identity, _ = strings.Cut(r.Tag, "|")
	if c.Tiers != nil {
		r.Tier = TierOf(c.Tiers, a.Limits)
	}
	if c.Overrides && prefix != "" {
		r.OverrideKey = string(redis.AppendKey(nil, prefix, a.Tag, algo.OverrideSuffix))
	}
	if a.Limits == nil || len(a.Limits.Limits) == 0 {
		r.Unlimited = true
		return
	}
	r.Limits = Limits(a.Limits, prefix, a.Tag)
	for i := range r.Limits {
		if cost := a.Costs[i]; cost != a.Cost {
			r.Limits[i].Cost = &cost
		}
	}
	for i, size := range a.Sizes { // what comes with the request
		brought := a.Limits.Limits[i].Limit
		brought.Units, brought.Burst = size.Units, size.Burst
		brought.Ceiling = size.Ceiling
		r.Limits[i].Limit, r.Limits[i].Capacity = size.Units, brought.Room()
		r.Limits[i].Ceiling = size.Ceiling
	}
	r.describeParts(a)
}

// describeParts fills in whom the limits with "per" count, and leaves out those that count nobody.
func (r *Rule) describeParts(a *rule.Applied) {
	if a.Values == nil {
		return
	}
	all := r.Limits
	r.Limits = nil
	for i, l := range all {
		values, applies := a.Limits.ValuesOf(a.Values, i)
		if !applies {
			continue
		}
		l.Per = string(values)
		if l.Key != "" {
			l.Key += l.Per
		}
		r.Limits = append(r.Limits, l)
	}
}

// Limits describes a list of limits, with their keys for a tag unless it is nil.
func Limits(set *rule.LimitSet, prefix string, tag []byte) (all []Limit) {
	for i := range set.Limits {
		l := &set.Limits[i]
		out := Limit{
			Name:      l.Name,
			Algorithm: l.Algorithm.String(),
			Limit:     l.Units,
			Window:    l.Window,
			Capacity:  l.Room(),
			Guarantee: l.Guarantee,
		}
		if prefix != "" && tag != nil {
			out.Key = string(redis.AppendKey(nil, prefix, tag, set.KeySuffixes[i]))
		}
		all = append(all, out)
	}
	return all
}

// TierOf is the name of the tier that has these limits.
func TierOf(tiers *config.Tiers, limits *rule.LimitSet) string {
	for i := range tiers.Values {
		tier := &tiers.Values[i]
		unlimited := limits == nil || len(limits.Limits) == 0
		if unlimited && tier.Unlimited || !unlimited && !tier.Unlimited && &tier.Limits[0] == &limits.Limits[0] {
			return tier.Value
		}
	}
	return ""
}

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

func (p *prober) applies(r config.Rule) bool {
	r.Name, r.Cost = "probe", config.Cost{Default: 1, Max: algo.MaxCost}
	r.Limits = []config.Limit{{
		Limit: algo.Limit{Algorithm: algo.GCRA, Units: 1, WindowMicros: 1e6},
		Name:  "probe", Window: "1s",
	}}
	set, err := rule.Compile(&config.Config{Rules: []config.Rule{r}}, p.req.expressions)
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

// sourceOf says where a component gets its value, and which flag provides it.
func sourceOf(c *config.Component) string {
	switch c.Source {
	case config.FromHeader:
		return fmt.Sprintf("header %q (-H '%s: ...')", c.Name, c.Name)
	case config.FromCookie:
		return fmt.Sprintf("cookie %q (-H 'cookie: %s=...')", c.Name, c.Name)
	case config.FromQuery:
		return fmt.Sprintf("query parameter %q", c.Name)
	case config.FromClientIP:
		return "client_ip (--client-ip)"
	case config.FromMetadata:
		return fmt.Sprintf("metadata %q (--metadata)", c.Path)
	case config.FromProperty:
		return fmt.Sprintf("property %s (--property %s=...)", strings.Join(c.Path, "."), strings.Join(c.Path, "."))
	case config.FromBearer:
		return "a bearer token (-H 'authorization: Bearer ...')"
	case config.FromExpr:
		return "its expression has no value"
	}
	return "its source"
}
