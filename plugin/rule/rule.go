package rule

import (
	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/answer"
	"github.com/sluiceproxy/sluice/plugin/calendar"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/pattern"
	"github.com/sluiceproxy/sluice/plugin/sha256"
)

// Set is the rules of a configuration, compiled. It does not change.
type Set struct {
	// Rules are the rules that are not off, in order.
	Rules []*Rule
	// LimitSets are all lists of limits, of rules and of their tiers.
	LimitSets []*LimitSet

	headers      []string                    // that some rule reads; a column is an index
	cookieColumn int                         // of the header cookie; -1: no rule reads it
	attributes   []*Attribute                // that some rule reads
	addressSlot  int                         // of the client address, if a match reads it
	components   []component                 // of keys, each once
	patterns     map[string]*pattern.Pattern // by regular expression

	evaluator   Expressions // nil: expressions have no value
	mac         *sha256.MAC // of keyed hashes
	expressions []expression
	evaluated   []int // columns of the expressions of the rule that is being compiled
	err         error // the first that compiling has met

	compiled []compiled // parallel to Rules
	quota    *quota     // nil: callers cannot read what they have left

	// OverHeaders are the names that some Over sets, in the spelling of config.SameHeader: no
	// client may send them.
	OverHeaders []string
}

// ID is a rule's place in Set.Rules.
type ID int

// LimitSetID is a limit set's place in Set.LimitSets. Tiers of one rule share tags, so this and a
// tag are the parts that tell identities apart.
type LimitSetID int

// Rule is a compiled rule: everything that does not depend on the request.
type Rule struct {
	Name string
	ID   ID
	// Enforced: it can reject a request; else it is in shadow.
	Enforced bool
	// Failure decides its checks if Redis does not.
	Failure config.FailureMode
	Exempt  bool
	Texts   answer.Texts // what access logs say
	Terms   algo.Terms   // overrides and penalty
	// HasTerms: it has one of them.
	HasTerms bool
	Settle   *Settle      // nil: a charge stands
	Over     *config.Over // nil: whom it rejects gets a 429
	// Excuses: a request that its limits reject goes on, and nothing pays for it.
	Excuses bool
	// Response is the answer to whom it rejects; nil: the configuration's.
	Response *config.Response
	Silent   bool // clients see nothing of its limits
	// Reports: its checks say what a caller has left, charge nothing and reject no request: see quota.go.
	Reports bool
}

// LimitSet is one list of limits, which are decided together. The slices are
// parallel.
type LimitSet struct {
	ID          LimitSetID
	Rule        *Rule
	Tier        string // that has these limits; "" without tiers
	Plan        *algo.Plan
	Limits      []config.Limit
	Own         int      // how many of the limits, the first ones, are the rule's own
	Pays        bool     // there are others, which may pay for them
	HasPer      bool     // some limit has "per": it counts for each value within the identity
	HasSlots    bool     // some limit is a concurrency limit
	Guarantee   int      // the limit that is a guarantee; -1 without one
	Pool        int      // and its pool
	KeySuffixes []string // ":gcra:1s"
	Labels      []answer.Label
	// Calendars are the windows of the limits that have a calendar's, nil for others;
	// nil if no limit does. Such limits have Sizes with every request; the layer that asks
	// a store fills in their Bounds.
	Calendars []*calendar.Windows
	// Parts are the limits by what they count, see Part: one where no limit has "per". Memories are
	// the same by what rejects: a guarantee and its pool reject together, as do limits of which some
	// may pay for others.
	Parts, Memories []Part

	pers  [][]int   // columns of the components of limits with "per", nil for others; nil if none has
	sizes []size    // where units and bursts come from
	costs []*amount // of limits that have a cost of their own; nil: the rule's
	sized bool      // whether any size comes with the request
}

// plan sets the plan of the limits, and the fields that follow from it.
func (l *LimitSet) plan(p *algo.Plan) {
	l.Plan, l.Own = p, p.Own()
	l.Pays = l.Own < len(l.Limits)
	l.Guarantee, l.Pool, _ = p.Guarantee()
	_, l.HasSlots = p.Slots()
}

// TakesRuleCost reports whether a limit takes the rule's cost, and not one of its own.
func (l *LimitSet) TakesRuleCost(limit int) bool { return l.costs[limit] == nil }

// Applied is a rule that applies to a request, and what that asks of its limits. Everything in it is
// valid until the Matcher's next Apply.
type Applied struct {
	Rule *Rule
	Demand
	// Cost is the rule's, 0 to algo.MaxCost.
	Cost int64
	// Ahead has the values of the request that another tier of the rule may need.
	Ahead Ahead
}

// compiled is a Rule with its match, key and other questions to a request.
type compiled struct {
	rule      *Rule
	match     match
	key       []int  // columns of Set.components
	tagPrefix string // "<rule>|", escaped
	cost      *amount
	limits    *LimitSet // nil if there are tiers
	tiers     *tiers
	// ahead are the columns of the expressions that the cost and any tier evaluate; nil of a rule whose
	// tier is known when the request comes.
	ahead []int
}

// Apply returns the rules that apply to a request, in order, up to the first
// exempt rule that matches, which is returned too, and whether the request is for
// the quota. The result is valid until m's next Apply.
//
// Where a value is unknown, such as one that is too long to be looked at, so is whether a rule
// matches: then it applies, and an exempt rule does not.
func (s *Set) Apply(req Request, m *Matcher) (applied []Applied, exempt *Rule, asking Asking) {
	m.reset(s, req)
	if s.quota != nil {
		if path := m.pathOf(); path.state == present && path.value == s.quota.path {
			return s.applyQuota(m)
		}
	}
	for i := range s.compiled {
		c := &s.compiled[i]
		found := m.matches(&c.match)
		if found == pattern.No {
			continue
		}
		if c.rule.Exempt {
			if found == pattern.Yes && !m.hasControl() {
				return m.applied, c.rule, NotForQuota
			}
			continue
		}
		if a, ok := m.apply(c); ok {
			m.applied = append(m.applied, a)
		}
	}
	return m.applied, nil, NotForQuota
}

// apply fills in an Applied for a rule that matches. The rule does not apply if
// it has no tier for the request, or its key cannot be built.
func (m *Matcher) apply(c *compiled) (Applied, bool) {
	limits := c.limits
	if t := c.tiers; t != nil {
		found := t.fallback
		if r := m.valueOf(&t.source); r.state.isUnknown() {
			found = t.unknown
		} else if named := t.named(r.value); named != nil && r.state == present {
			found = named
		}
		if found == nil {
			return Applied{}, false
		}
		limits = found.limits
	}
	begin := len(m.tags)
	m.tags = append(m.tags, c.tagPrefix...)
	if !m.appendIdentity(c.key) {
		m.tags = m.tags[:begin]
		return Applied{}, false
	}
	a := Applied{Rule: c.rule, Demand: Demand{Limits: limits, Tag: m.tags[begin:len(m.tags):len(m.tags)]}}
	ok := m.take(c, &a)
	if ok && c.ahead != nil {
		a.Ahead = m.readAhead(c.ahead)
	}
	return a, ok
}
