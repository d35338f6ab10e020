package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/override"
	"github.com/sluiceproxy/sluice/plugin/redis"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// Rule says what one rule does with a request.
type Rule struct {
	Rule string `json:"rule"`
	Mode string `json:"mode"` // see Mode
	// Failure is the rule's own failure mode; "" where it is the configuration's.
	Failure string `json:"failure,omitempty"`
	Applies bool   `json:"applies"`
	// Reports: the request is for the quota, which shows what is left of this rule's limits. Nothing
	// is charged.
	Reports bool   `json:"reports,omitempty"`
	Why     string `json:"why,omitempty"` // why it does not apply

	Identity string `json:"identity,omitempty"`
	// Shared says which components of the identity are %many, %odd or %long, and why: all such
	// requests of the rule are one identity.
	Shared    []string `json:"shared,omitempty"`
	Tag       string   `json:"tag,omitempty"` // "<rule>|<identity>", in the braces of the keys
	Cost      int64    `json:"cost"`
	Tier      string   `json:"tier,omitempty"`
	Unlimited bool     `json:"unlimited,omitempty"`
	Limits    []Limit  `json:"limits,omitempty"`
	// OverrideKey is the key in Redis under which an operator sets an override for
	// the identity; "" if the rule has no overrides.
	OverrideKey string `json:"override_key,omitempty"`
	// Contract is the setting of the override that a file has for the identity; "" if it has none. The
	// tier and the limits are those that it makes.
	Contract string `json:"contract,omitempty"`
	// Over is the fate of requests that the rule rejects; nil: a 429.
	Over *Over `json:"over,omitempty"`
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
	Unit      string `json:"unit,omitempty"` // of what it counts; requests have none
	Cost      *int64 `json:"cost,omitempty"` // of this limit, if it is not the rule's
	Key       string `json:"key,omitempty"`  // in Redis
	// Per are the values that a limit with "per" counts, as in its key, and Ceiling the percent of
	// the capacity that are there for the request's class.
	Per       string `json:"per,omitempty"`
	Ceiling   int64  `json:"ceiling,omitempty"`
	Guarantee bool   `json:"guarantee,omitempty"`
	Over      bool   `json:"over,omitempty"` // it pays for what the others reject
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
	e := explanation{cfg: cfg, set: set, req: req, contracts: contracts}
	var m rule.Matcher
	e.applied, e.exempt, e.asking = set.Apply(req, &m)
	var all []Rule
	for i := range cfg.Rules {
		one, err := e.rule(&cfg.Rules[i])
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// explanation is a request on its way through the rules.
type explanation struct {
	cfg       *config.Config
	set       *rule.Set
	req       *Request
	contracts map[string]string

	applied []rule.Applied
	exempt  *rule.Rule
	asking  rule.Asking // NotForQuota, or how it asks for the quota
	ended   string      // the exempt rule that matched, once it has been passed
}

// rule says what one rule, the next one, does with the request.
func (e *explanation) rule(c *config.Rule) (out Rule, err error) {
	out = Rule{Rule: c.Name, Mode: Mode(c), Over: overOf(c)}
	if !c.Exempt && c.Failure != e.cfg.Failure.Mode {
		out.Failure = c.Failure.String()
	}
	var a *rule.Applied // of the rule, which has a unique name; nil if it does not apply
	if n := slices.IndexFunc(e.applied, func(a rule.Applied) bool { return a.Rule.Name == c.Name }); n >= 0 {
		a = &e.applied[n]
	}
	isListed := e.cfg.Quota != nil &&
		slices.ContainsFunc(e.cfg.Quota.Rules, func(i int) bool { return &e.cfg.Rules[i] == c })
	switch {
	case c.Mode == config.Off:
		out.Why = "its mode is off"
	case e.ended != "":
		out.Why = fmt.Sprintf("it comes after the exempt rule %q, which matches", e.ended)
	case e.exempt != nil && e.exempt.Name == c.Name:
		out.Applies, e.ended = true, c.Name
	case a != nil:
		out.Contract = e.contracts[string(a.Tag)]
		if out.Contract != "" {
			agreed := under(out.Contract, e.set, e.req, a)
			a = &agreed
		}
		prefix := ""
		if e.cfg.Redis != nil {
			prefix = e.cfg.Redis.KeyPrefix
		}
		out.describe(c, a, prefix)
	case e.asking != rule.NotForQuota && c.Exempt:
		out.Why = "the request is for the quota, where exempt rules change nothing"
	case e.asking == rule.ByAnotherMethod && isListed:
		out.Why = "the request is for the quota, which is read by GET or HEAD: it is answered with 405"
	default:
		asked := *c
		if e.asking != rule.NotForQuota && isListed { // whatever its match is
			asked.Match = config.Match{}
		}
		out.Why, err = why(&asked, e.req)
	}
	return out, err
}

// Mode says how a rule treats a request: "enforce", "shadow", "off" or "exempt".
func Mode(c *config.Rule) string {
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

// describe fills in what applies.
func (r *Rule) describe(c *config.Rule, a *rule.Applied, prefix string) {
	r.Applies, r.Tag, r.Cost, r.Applied = true, string(a.Tag), a.Cost, a
	r.Reports = a.Rule.Reports
	// A tag is the name and the identity, with the first "|" between them.
	_, r.Identity, _ = strings.Cut(r.Tag, "|")
	var all []string
	parts := strings.Split(r.Identity, "|")
	for i := range c.Key {
		if i < len(parts) && marks[parts[i]] != "" {
			all = append(all, fmt.Sprintf("%s: %s %s", parts[i], Describe(&c.Key[i]), marks[parts[i]]))
		}
	}
	r.Shared = all
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
	for i, l := range Limits(a.Limits) {
		if cost := a.Costs[i]; cost != a.Cost {
			l.Cost = &cost
		}
		if a.Sizes != nil { // what comes with the request
			brought, size := a.Limits.Limits[i].Limit, a.Sizes[i]
			brought.Units, brought.Burst, brought.Ceiling = size.Units, size.Burst, size.Ceiling
			l.Limit, l.Capacity, l.Ceiling = size.Units, brought.Room(), size.Ceiling
		}
		if a.Values != nil {
			values, applies := a.Limits.ValuesOf(a.Values, i)
			if !applies {
				continue
			}
			l.Per = string(values)
		}
		if prefix != "" {
			l.Key = string(redis.AppendKey(nil, prefix, a.Tag, a.Limits.KeySuffixes[i])) + l.Per
		}
		r.Limits = append(r.Limits, l)
	}
}

// Limits describes a list of limits.
func Limits(set *rule.LimitSet) (all []Limit) {
	for i := range set.Limits {
		l := &set.Limits[i]
		all = append(all, Limit{
			Name:      l.Name,
			Algorithm: l.Algorithm.String(),
			Limit:     l.Units,
			Window:    l.Window,
			Capacity:  l.Room(),
			Unit:      l.Unit,
			Guarantee: l.Guarantee,
			Over:      l.Over,
		})
	}
	return all
}

// TierOf is the name of the tier that has these limits.
func TierOf(tiers *config.Tiers, limits *rule.LimitSet) string {
	for i := range tiers.Values {
		tier := &tiers.Values[i]
		unlimited := limits == nil || len(limits.Limits) == 0
		if unlimited && tier.Unlimited || !unlimited && !tier.Unlimited && limits.Tier == tier.Value {
			return tier.Value
		}
	}
	return ""
}

// under applies an override to a rule that applies, as the plugin does.
func under(setting string, set *rule.Set, req *Request, came *rule.Applied) rule.Applied {
	a := *came
	a.Sizes = Sizes(setting, a.Limits, a.Sizes)
	if o := override.Parse(setting); o.Kind == override.Tier {
		if limits := set.Tier(a.Rule.ID, o.Rest); limits != nil {
			var m rule.Matcher
			a = set.ApplyAs(req, &m, limits, nil)
			a.Tag = came.Tag
		}
	}
	return a
}

// Sizes are the sizes of limits for a request, as an override changes them; nil: as configured.
func Sizes(setting string, set *rule.LimitSet, came []algo.Size) []algo.Size {
	o := override.Parse(setting)
	if o.Kind == override.Numbers || o.Kind == override.Factor {
		if sizes, ok := set.SizesOf(nil, came, o); ok {
			return sizes
		}
	}
	return came
}
