package rule

import (
	"slices"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/answer"
	"github.com/sluiceproxy/sluice/plugin/calendar"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/message"
	"github.com/sluiceproxy/sluice/plugin/pattern"
	"github.com/sluiceproxy/sluice/plugin/sha256"
	"github.com/sluiceproxy/sluice/plugin/text"
)

// Columns of the pseudo headers, which come first.
const (
	pathColumn = iota
	authorityColumn
	methodColumn
)

// Compile prepares the rules of a configuration, which must not change
// afterwards. Rules that are off are left out. Without Expressions no expression
// has a value.
func Compile(cfg *config.Config, expressions Expressions) (*Set, error) {
	s := &Set{
		headers:      []string{pathColumn: ":path", authorityColumn: ":authority", methodColumn: ":method"},
		cookieColumn: noHeader,
		patterns:     map[string]*pattern.Pattern{},
		evaluator:    expressions,
		mac:          sha256.NewMAC([]byte(cfg.HashSecret)),
	}
	for i := range cfg.Rules {
		c := &cfg.Rules[i]
		if c.Over != nil {
			for _, h := range c.Over.Headers { // which no client may send, even if the rule is off
				if name := config.SameHeader(h[0]); !slices.Contains(s.OverHeaders, name) {
					s.OverHeaders = append(s.OverHeaders, name)
				}
			}
		}
		if c.Mode == config.Off {
			continue
		}
		r := &Rule{
			Name: c.Name, ID: ID(len(s.Rules)), Texts: answer.NewTexts(c.Name),
			Enforced: c.Mode == config.Enforce, Failure: c.Failure, Exempt: c.Exempt,
			Terms: TermsOf(c), HasTerms: c.Overrides || c.Penalty != nil,
			Over: c.Over, Excuses: c.Over != nil && len(c.Over.Limits) == 0,
			Response: c.Response, Silent: c.Silent,
		}
		s.evaluated = nil
		out := compiled{rule: r, match: s.compileMatch(&c.Match, c.Exempt), tagPrefix: TagPrefix(c.Name)}
		if c.Settle != nil {
			r.Settle = &Settle{Settle: c.Settle}
			if expr := c.Settle.Expr; expr != "" {
				// It has the value of a bool, and none of anything else.
				r.Settle.keeps = s.compileEnding("{true: true, false: false}[" + expr + "\n]")
			}
			if cost := c.Settle.Cost; cost != nil && amountText(&cost.Amount) != "" {
				r.Settle.cost = s.compileEnding(wrapped(amountText(&cost.Amount), config.NumberExpression))
			}
		}
		out.key = s.compileKey(r, c.Key)
		before := len(s.evaluated)
		out.cost = s.compileAmount(&c.Cost)
		switch {
		case c.Tiers != nil:
			if out.tiers = s.compileTiers(r, c); c.Overrides {
				out.ahead = s.evaluated[before:]
			}
		case !c.Exempt:
			out.limits = s.compileLimits(r, withOver(c, c.Limits))
		}
		s.Rules = append(s.Rules, r)
		s.compiled = append(s.compiled, out)
		if s.err != nil {
			return nil, message.Errorf("rules[%d]: %v", i, s.err)
		}
	}
	s.compileQuota(cfg)
	return s, s.err
}

// fail keeps the first error. What is compiled after it is of no use.
func (s *Set) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

// withOver is a rule's limits, and behind them those that may pay for them: not in shadow, where
// nobody is refused.
func withOver(c *config.Rule, limits []config.Limit) []config.Limit {
	if c.Over == nil || c.Mode != config.Enforce || len(limits) == 0 {
		return limits
	}
	return slices.Concat(limits, c.Over.Limits)
}

// TagPrefix is the beginning of all tags of a rule of this name.
func TagPrefix(name string) string { return string(text.AppendEscaped(nil, name)) + "|" }

// compileLimits compiles a list of limits.
func (s *Set) compileLimits(r *Rule, list []config.Limit) *LimitSet {
	l := &LimitSet{ID: LimitSetID(len(s.LimitSets)), Rule: r, Limits: list}
	limits := make([]algo.Limit, len(list))
	for i := range list {
		limits[i] = list[i].Limit
		l.KeySuffixes = append(l.KeySuffixes, list[i].KeySuffix())
		l.Labels = append(l.Labels, answer.NewLabel(&list[i], r.Silent))
	}
	plan, err := algo.NewPlanWithTerms(limits, r.Terms)
	if err != nil {
		s.fail(err)
		return nil
	}
	l.plan(plan)
	s.LimitSets = append(s.LimitSets, l)
	for i := range list {
		c := &list[i]
		if c.Calendar != nil {
			windows, ok := calendar.New(c.Calendar)
			if !ok {
				s.fail(message.Errorf("limits[%d].timezone: %q is not a time zone", i, c.Calendar.Zone))
			}
			if l.Calendars == nil {
				l.Calendars = make([]*calendar.Windows, len(list))
			}
			l.Calendars[i] = windows
		}
		if len(c.Per) > 0 {
			if l.pers == nil {
				l.pers, l.HasPer = make([][]int, len(list)), true
			}
			l.pers[i] = s.compileKey(r, c.Per)
		}
		from := size{units: s.compileAmount(c.UnitsFrom), burst: s.compileAmount(c.BurstFrom)}
		if c.Classes != nil {
			from.classes = &classes{
				Classes: c.Classes, source: s.compileComponent(r, &c.Classes.Source),
				lowest: c.Classes.Lowest(), other: c.Classes.Of(c.Classes.Default),
			}
		}
		l.sizes = append(l.sizes, from)
		l.sized = l.sized || c.Calendar != nil || from != size{}
		l.costs = append(l.costs, s.compileAmount(c.Cost))
	}

	// The limits by parts: the rule's own first, then those that may pay for them, as the embedded store asks
	// one list after the other.
	all := make([]int, len(list))
	for i := range all {
		all[i] = i
	}
	guarantee, pool := l.Guarantee, l.Pool
	switch {
	case l.pers == nil:
		l.Parts = []Part{{all, byTag}}
		l.Memories = l.Parts
	case l.Pays:
		l.Parts = l.partsOf(l.partsOf(nil, all[:l.Own]), all[l.Own:])
		l.Memories = []Part{{all, byAllValues}}
	case guarantee >= 0: // whether the guarantee admits is asked first, see decide
		others := slices.DeleteFunc(slices.Clone(all), func(i int) bool { return i == guarantee })
		l.Parts = l.partsOf([]Part{{[]int{guarantee}, guarantee}}, others)
		others = slices.DeleteFunc(others, func(i int) bool { return i == pool })
		l.Memories = l.partsOf([]Part{{[]int{guarantee, pool}, guarantee}}, others)
	default:
		l.Parts = l.partsOf(nil, all)
		l.Memories = l.Parts
	}
	return l
}

// TermsOf returns a rule's terms: overrides and penalty.
func TermsOf(c *config.Rule) algo.Terms {
	return algo.Terms{Overrides: c.Overrides, Penalty: c.Penalty}
}

// headerColumn is the column of a header, added if it is new.
func (s *Set) headerColumn(name string) int {
	if name == "host" { // Envoy has it as the authority
		return authorityColumn
	}
	if i := slices.Index(s.headers, name); i >= 0 {
		return i
	}
	s.headers = append(s.headers, name)
	column := len(s.headers) - 1
	if name == "cookie" {
		s.cookieColumn = column
	}
	return column
}

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
