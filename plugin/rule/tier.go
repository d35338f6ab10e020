package rule

import "github.com/sluiceproxy/sluice/plugin/config"

// tiers is a compiled config.Tiers.
type tiers struct {
	source   component
	values   []tier
	fallback *tier // nil: without a tier the rule does not apply
}

type tier struct {
	value  string
	limits *LimitSet // nil: unlimited
}

// tier is the limits of the request's tier, and whether it has one.
func (m *Matcher) tier(t *tiers) (*LimitSet, bool) {
	found := t.fallback
	if value, ok := m.read(&t.source); ok {
		if named := m.named(t, value); named != nil {
			found = named
		}
	}
	if found == nil {
		return nil, false
	}
	return found.limits, true
}

// named is the tier of a value, or nil. An attribute that is no text names a
// tier by the text of its number or boolean.
func (m *Matcher) named(t *tiers, value string) *tier {
	found := t.named(value)
	if found != nil || t.source.Source != config.FromMetadata && t.source.Source != config.FromProperty {
		return found
	}
	text, ok := appendScalar(m.value[:0], value)
	m.value = text
	if !ok {
		return nil
	}
	return t.named(view(text))
}

func (t *tiers) named(value string) *tier {
	for i := range t.values {
		if t.values[i].value == value {
			return &t.values[i]
		}
	}
	return nil
}

func (s *Set) tiers(r *Rule, c *config.Tiers) (*tiers, error) {
	t := &tiers{source: s.component(&c.Source)}
	for i := range c.Values {
		v := &c.Values[i]
		compiled := tier{value: v.Value}
		if !v.Unlimited {
			limits, err := s.limits(r, v.Limits)
			if err != nil {
				return nil, err
			}
			compiled.limits = limits
		}
		t.values = append(t.values, compiled)
	}
	if c.HasDefault {
		t.fallback = t.named(c.Default)
	}
	return t, nil
}
