package rule

import (
	"fmt"
	"slices"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/answer"
	"github.com/sluiceproxy/sluice/plugin/config"
)

// Slots of the headers that are read by more than a name in the configuration.
const (
	slotPath = iota
	slotAuthority
	slotMethod
)

// Compile prepares the rules of a configuration, which must not change
// afterwards. Rules that are off are left out.
func Compile(cfg *config.Config) (*Set, error) {
	s := &Set{headers: []string{slotPath: ":path", slotAuthority: ":authority", slotMethod: ":method"}}
	for i := range cfg.Rules {
		r := &cfg.Rules[i]
		if r.Mode == config.Off {
			continue
		}
		if err := s.add(r); err != nil {
			return nil, fmt.Errorf("rules[%d]: %w", i, err)
		}
	}
	return s, nil
}

func (s *Set) add(c *config.Rule) error {
	r := &Rule{
		Name:   c.Name,
		Index:  len(s.Rules),
		Mode:   c.Mode,
		Exempt: c.Exempt,
		Texts:  answer.NewTexts(c.Name),
	}
	out := compiled{
		rule:      r,
		match:     s.match(&c.Match),
		tagPrefix: string(appendEscaped(nil, c.Name)) + "|",
		cost:      s.cost(&c.Cost),
	}
	for i := range c.Key {
		out.key = append(out.key, s.component(&c.Key[i]))
	}
	var err error
	switch {
	case c.Tiers != nil:
		out.tiers, err = s.tiers(r, c.Tiers)
	case !c.Exempt:
		out.limits, err = s.limits(r, c.Limits)
	}
	if err != nil {
		return err
	}
	s.Rules = append(s.Rules, r)
	s.compiled = append(s.compiled, out)
	return nil
}

// limits compiles a list of limits.
func (s *Set) limits(r *Rule, list []config.Limit) (*LimitSet, error) {
	l := &LimitSet{Index: len(s.LimitSets), Rule: r, Limits: list}
	limits := make([]algo.Limit, len(list))
	for i := range list {
		limits[i] = list[i].Limit
		l.KeySuffixes = append(l.KeySuffixes, list[i].KeySuffix())
		l.Labels = append(l.Labels, answer.NewLabel(&list[i]))
	}
	policy, err := algo.NewPlan(limits)
	if err != nil {
		return nil, err
	}
	l.Plan = policy
	s.LimitSets = append(s.LimitSets, l)
	return l, nil
}

// headerSlot is the slot of a header, added if it is new.
func (s *Set) headerSlot(name string) int {
	if i := slices.Index(s.headers, name); i >= 0 {
		return i
	}
	s.headers = append(s.headers, name)
	return len(s.headers) - 1
}

// propertySlot is the slot of an attribute, added if it is new.
func (s *Set) propertySlot(path []string) int {
	equal := func(p []string) bool { return slices.Equal(p, path) }
	if i := slices.IndexFunc(s.properties, equal); i >= 0 {
		return i
	}
	s.properties = append(s.properties, path)
	return len(s.properties) - 1
}
