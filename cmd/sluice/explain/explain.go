package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/answer"
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

// Over says what becomes of a request that the rule rejects.
type Over struct {
	SetHeaders map[string]string `json:"set_headers,omitempty"`
	Pays       []string          `json:"pays,omitempty"` // the names of the limits that pay
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
func Under(contracts map[string]string, cfg *config.Config, req *Request) (all []Rule, err error) {
	var expressions Expressions
	set, err := rule.Compile(cfg, &expressions)
	if err != nil {
		return nil, err
	}
	req.Use(&expressions)
	req.Strip(set)
	var m rule.Matcher
	matching, exempt, asking := set.Apply(req, &m)
	ended := "" // the exempt rule that matched, once it has been passed
	for i := range cfg.Rules {
		c := &cfg.Rules[i]
		out := Rule{Rule: c.Name, Mode: Mode(c)}
		if !c.Exempt && c.Failure != cfg.Failure.Mode {
			out.Failure = c.Failure.String()
		}
		if c.Over != nil {
			out.Over = &Over{}
			for i := range c.Over.Limits {
				out.Over.Pays = append(out.Over.Pays, c.Over.Limits[i].Name)
			}
			if len(c.Over.Headers) > 0 {
				out.Over.SetHeaders = map[string]string{}
			}
			for _, h := range c.Over.Headers {
				out.Over.SetHeaders[h[0]] = h[1]
			}
		}
		applied := slices.IndexFunc(matching, func(a rule.Applied) bool { return a.Rule.Name == c.Name })
		isListed := cfg.Quota != nil && slices.Contains(cfg.Quota.Rules, i)
		switch {
		case c.Mode == config.Off:
			out.Why = "its mode is off"
		case ended != "":
			out.Why = fmt.Sprintf("it comes after the exempt rule %q, which matches", ended)
		case exempt != nil && exempt.Name == c.Name:
			out.Applies, ended = true, c.Name
		case applied >= 0:
			a := matching[applied]
			if out.Contract = contracts[string(a.Tag)]; out.Contract != "" {
				a = under(out.Contract, set, req, &a)
			}
			prefix := ""
			if cfg.Redis != nil {
				prefix = cfg.Redis.KeyPrefix
			}
			out.describe(c, &a, prefix)
		case asking != rule.NotForQuota && c.Exempt:
			out.Why = "the request is for the quota, where exempt rules change nothing"
		case asking == rule.ByAnotherMethod && isListed:
			out.Why = "the request is for the quota, which is read by GET or HEAD: it is answered with 405"
		default:
			asked := *c
			if asking != rule.NotForQuota && isListed { // whatever its match is
				asked.Match = config.Match{}
			}
			out.Why = why(&asked, req)
		}
		all = append(all, out)
	}
	return all, nil
}

// Mode says how a rule treats a request: "enforce", "shadow", "off" or "exempt".
func Mode(c *config.Rule) string {
	if c.Exempt {
		return "exempt"
	}
	return []string{config.Enforce: "enforce", config.Shadow: "shadow", config.Off: "off"}[c.Mode]
}

// describe fills in what applies.
func (r *Rule) describe(c *config.Rule, a *rule.Applied, prefix string) {
	r.Applies, r.Tag, r.Cost, r.Applied = true, string(a.Tag), a.Cost, a
	r.Reports = a.Rule.Reports
	// A tag is the name and the identity, with the first "|" between them.
	_, r.Identity, _ = strings.Cut(r.Tag, "|")
	for i, part := range strings.Split(r.Identity, "|") {
		if i < len(c.Key) && marks[part] != "" {
			r.Shared = append(r.Shared, fmt.Sprintf("%s: %s %s", part, Describe(&c.Key[i]), marks[part]))
		}
	}
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
		values, applies := a.Limits.ValuesOf(a.Values, i)
		if !applies {
			continue
		}
		l.Per = string(values)
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
			Name: l.Name, Algorithm: l.Algorithm.String(), Limit: l.Units, Window: l.Window, Capacity: l.Room(), Unit: l.Unit,
			Guarantee: l.Guarantee, Over: l.Over,
		})
	}
	return all
}

// TierOf is the name of the tier that has these limits.
func TierOf(tiers *config.Tiers, limits *rule.LimitSet) string {
	unlimited := limits == nil || len(limits.Limits) == 0
	for i := range tiers.Values {
		tier := &tiers.Values[i]
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

// Headers are the header fields by which the response tells the client of its limits, at a time, if
// nothing has been used before. There are none where clients see no limit, or the request is rejected
// even so.
func Headers(cfg *config.Config, rules []Rule, atMicros int64) [][2]string {
	var shown []answer.Limit
	for i := range rules {
		r := &rules[i]
		if r.Applied == nil || r.Mode != "enforce" || r.Reports || r.Unlimited {
			continue
		}
		switch override.Parse(r.Contract).Kind {
		case override.Block:
			return nil
		case override.Free:
			continue
		}
		a, set := r.Applied, r.Applied.Limits
		sizes, decisions := slices.Clone(a.Sizes), make([]algo.Decision, len(a.Costs))
		for i, windows := range set.Calendars {
			if windows != nil {
				sizes[i].Bounds = windows.Around(atMicros)
			}
		}
		plan := set.Plan.At(new(algo.Plan), sizes)
		if !plan.DecideAs(1, make([]algo.State, len(decisions)), atMicros, a.Costs, decisions) {
			return nil
		}
		plan.Resolve(decisions)
		for i := range decisions {
			if _, applies := set.ValuesOf(a.Values, i); !applies || decisions[i].Hidden {
				continue
			}
			limit := answer.Limit{Label: &set.Labels[i], Decision: decisions[i]}
			if sizes != nil {
				limit.Sized = &plan.Limits()[i]
			}
			shown = append(shown, limit)
		}
	}
	return answer.New(cfg, 1).Headers(shown, atMicros, answer.Upstream{})
}
