package rule

import (
	"slices"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/pattern"
)

// Report says what a rule's checks are for.
type Report uint8

const (
	// Decides: whether the request goes on.
	Decides Report = iota
	// Reports: what a caller has left. Its checks charge nothing and reject no request.
	Reports
	// ReportsLimits: what a caller would have left were it not blocked, as the rule has terms.
	ReportsLimits
)

// Asking says whether a request is for the quota.
type Asking uint8

const (
	// NotForQuota: the request is for something else.
	NotForQuota Asking = iota
	// ForQuota: it is a GET or HEAD.
	ForQuota
	// ByAnotherMethod: it is for the quota, but no GET or HEAD.
	ByAnotherMethod
)

// quota is a compiled config.Quota.
type quota struct {
	path   string
	listed []listed
	hides  []bool // of Set.compiled, those that do not apply to requests for the quota: listed or exempt
}

// listed is a rule whose limits callers may read.
type listed struct {
	compiled
	// limits is the rule as one without terms, by the LimitSetID of the same limits with them; nil if
	// it has none. An identity that is blocked gets no answer from the script of its terms.
	rule   *Rule
	limits map[LimitSetID]*LimitSet
}

// compileQuota compiles "quota", once all rules are.
func (s *Set) compileQuota(cfg *config.Config) {
	if cfg.Quota == nil {
		return
	}
	s.quota = &quota{path: cfg.Quota.Path, hides: make([]bool, len(s.compiled))}
	for i := range s.compiled {
		s.quota.hides[i] = s.compiled[i].rule.Exempt
	}
	for _, place := range cfg.Quota.Rules {
		i := 0
		for s.compiled[i].rule.Name != cfg.Rules[place].Name {
			i++
		}
		s.quota.hides[i] = true
		s.quota.listed = append(s.quota.listed, s.compileListed(&s.compiled[i]))
	}
}

// compileListed makes a rule one whose checks report.
func (s *Set) compileListed(c *compiled) listed {
	reports := *c.rule
	reports.Mode, reports.Report = config.Shadow, Reports
	reports.Settle, reports.Over = nil, nil
	l := listed{compiled: *c}
	l.compiled.rule = &reports
	if !reports.HasTerms() {
		return l
	}
	limits := reports
	limits.Report, limits.Terms = ReportsLimits, algo.Terms{}
	l.rule, l.limits = &limits, map[LimitSetID]*LimitSet{}
	for _, set := range slices.Clone(s.LimitSets) {
		if set.Rule != c.rule || len(set.Limits) == 0 {
			continue
		}
		l.limits[set.ID] = s.compileLimits(l.rule, set.Limits)
	}
	return l
}

// AnswersQuota reports whether the configuration has requests of one path answered with what the
// caller has left.
//
//go:inline
func (s *Set) AnswersQuota() bool { return s.quota != nil }

// ApplyQuota is Apply for a configuration that AnswersQuota. To a request for the quota all rules apply
// but those that are listed or exempt, and then, if it is a GET or HEAD, the listed ones, whatever
// their match is, at cost 0.
func (s *Set) ApplyQuota(req Request, m *Matcher) (applied []Applied, exempt *Rule, asking Asking) {
	m.reset(s, req)
	if path := m.pathOf(); path.state != present || path.value != s.quota.path {
		applied, exempt = s.apply(m)
		return applied, exempt, NotForQuota
	}
	for i := range s.compiled {
		c := &s.compiled[i]
		if s.quota.hides[i] || m.matches(&c.match) == pattern.No {
			continue
		}
		if a, ok := m.apply(c); ok {
			m.applied = append(m.applied, a)
		}
	}
	if method := m.methodOf(); method.value != "GET" && method.value != "HEAD" {
		return m.applied, nil, ByAnotherMethod
	}
	for i := range s.quota.listed {
		m.report(&s.quota.listed[i])
	}
	return m.applied, nil, ForQuota
}

// report adds what is asked about a listed rule.
func (m *Matcher) report(l *listed) {
	a, ok := m.apply(&l.compiled)
	if !ok {
		return
	}
	a.Cost = 0
	clear(a.Costs)
	m.applied = append(m.applied, a)
	if a.Limits == nil || l.limits[a.Limits.ID] == nil {
		return
	}
	a.Rule, a.Limits = l.rule, l.limits[a.Limits.ID]
	m.applied = append(m.applied, a)
}
