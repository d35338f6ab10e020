package rule

import "github.com/sluiceproxy/sluice/plugin/config"

// tiers is a compiled config.Tiers.
type tiers struct {
	source   component
	values   []tier
	fallback *tier // nil: without a tier the rule does not apply
	unknown  *tier // of a source whose value is unknown
}

type tier struct {
	value  string
	limits *LimitSet // nil, or of no limits: unlimited
}

func (t *tier) isUnlimited() bool { return t.limits == nil || len(t.limits.Limits) == 0 }

// named is the tier of a value, or nil.
func (t *tiers) named(value string) *tier {
	for i := range t.values {
		if t.values[i].value == value {
			return &t.values[i]
		}
	}
	return nil
}

func (s *Set) compileTiers(r *Rule, of *config.Rule) *tiers {
	c := of.Tiers
	t := &tiers{source: s.compileComponent(r, &c.Source)}
	for i := range c.Values {
		v := &c.Values[i]
		compiled := tier{value: v.Value}
		if !v.Unlimited || r.HasTerms {
			if compiled.limits = s.compileLimits(r, withOver(of, v.Limits)); compiled.limits != nil {
				compiled.limits.Tier = v.Value
			}
		}
		t.values = append(t.values, compiled)
	}
	if c.HasDefault {
		t.fallback = t.named(c.Default)
	}
	// The default tier if it has limits, else the first that has; the default if none has.
	t.unknown = t.fallback
	for i := range t.values {
		if t.unknown != nil && !t.unknown.isUnlimited() {
			break
		}
		if !t.values[i].isUnlimited() {
			t.unknown = &t.values[i]
		}
	}
	return t
}
