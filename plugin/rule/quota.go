package rule

import (
	"slices"

	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/pattern"
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
	listed []compiled // whose limits callers may read
	hides  []bool     // of Set.compiled, those that do not apply to requests for the quota: listed or exempt
	// reports are limit sets that ask all limits, in place of those with limits that may pay for others.
	reports map[LimitSetID]*LimitSet
}

// compileQuota compiles "quota", once all rules are.
func (s *Set) compileQuota(cfg *config.Config) {
	if cfg.Quota == nil {
		return
	}
	s.quota = &quota{
		path: cfg.Quota.Path, hides: make([]bool, len(s.compiled)), reports: map[LimitSetID]*LimitSet{},
	}
	for i := range s.compiled {
		s.quota.hides[i] = s.compiled[i].rule.Exempt
	}
	for _, place := range cfg.Quota.Rules {
		i := slices.IndexFunc(s.compiled, func(c compiled) bool { return c.rule.Name == cfg.Rules[place].Name })
		s.quota.hides[i] = true
		reports := *s.compiled[i].rule
		reports.Enforced, reports.Reports = false, true
		reports.Settle, reports.Over, reports.Excuses = nil, nil, false
		listed := s.compiled[i]
		listed.rule = &reports
		s.quota.listed = append(s.quota.listed, listed)
		for _, set := range slices.Clone(s.LimitSets) {
			if set.Rule != s.compiled[i].rule || !set.Pays {
				continue
			}
			if all := s.compileLimits(&reports, set.Limits); all != nil {
				all.plan(all.Plan.AsOne())
				all.Tier = set.Tier
				s.quota.reports[set.ID] = all
			}
		}
	}
}

// applyQuota is Apply to a request for the quota. First the rules apply that are neither listed nor exempt,
// then, if it is a GET or HEAD, the listed rules, at cost 0 and whatever their match is.
//
//go:noinline
func (s *Set) applyQuota(m *Matcher) (applied []Applied, exempt *Rule, asking Asking) {
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
		if a, ok := m.apply(&s.quota.listed[i]); ok {
			a.Cost = 0
			clear(a.Costs)
			if a.Limits != nil && s.quota.reports[a.Limits.ID] != nil {
				a.Limits = s.quota.reports[a.Limits.ID]
			}
			m.applied = append(m.applied, a)
		}
	}
	return m.applied, nil, ForQuota
}
