package simulate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/cmd/sluice/explain"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// Suggestion is a log's advice on one limit of a rule: the least limits at which it would have
// refused no request of so many identities.
type Suggestion struct {
	Limit      string `json:"limit"`
	Algorithm  string `json:"algorithm"`
	Window     string `json:"window"`
	Now        int64  `json:"now"` // as configured
	Identities int    `json:"identities"`
	P50        int64  `json:"p50"`
	P90        int64  `json:"p90"`
	P99        int64  `json:"p99"`
	P999       int64  `json:"p999"`
	Max        int64  `json:"max"`
	// Suggested would have refused requests of 1 in 1,000 identities at most; 0: the log has too
	// few identities to say so.
	Suggested int64 `json:"suggested"`
	Burst     int64 `json:"burst,omitempty"` // with it, of a limit that has one
	// Why there is no suggestion.
	Why string `json:"why,omitempty"`
}

// enough identities that 1 in 1,000 is one of them.
const enough = 1000

// sent is one request of an identity.
type sent struct {
	atMicros int64
	costs    []int64
}

// Advice is what a log says about a rule.
type Advice struct {
	Limits []Suggestion `json:"limits"`
	// Shares are what the suggested limits would refuse; nil without a suggestion.
	*Shares
}

// Shares are how many of a log's requests and identities limits refuse.
type Shares struct {
	Requests          int64 `json:"requests"` // that the rule applies to
	RefusedRequests   int64 `json:"refused_requests"`
	Identities        int64 `json:"identities"`
	RefusedIdentities int64 `json:"refused_identities"`
}

// Suggest looks at what the identities of a rule have sent, each for itself and each limit for
// itself, by the algorithms' own twins.
func (l *Log) Suggest(rules *rule.Set, compiledWith *explain.Expressions, name string) (*Advice, error) {
	identities := map[*rule.LimitSet]map[string][]sent{}
	var order []*rule.LimitSet
	var m rule.Matcher
	for r := l.next(); r != nil; r = l.next() {
		r.http.Use(compiledWith)
		applied, _ := rules.Apply(r.http, &m)
		for i := range applied {
			a := &applied[i]
			if a.Rule.Name != name || a.Limits == nil {
				continue
			}
			if identities[a.Limits] == nil {
				identities[a.Limits], order = map[string][]sent{}, append(order, a.Limits)
			}
			of := identities[a.Limits]
			of[string(a.Tag)] = append(of[string(a.Tag)], sent{l.beginMicros + r.atMicros, slices.Clone(a.Costs)})
		}
	}
	if l.Err != nil {
		return nil, l.Err
	}
	if len(order) == 0 {
		return nil, fmt.Errorf("rule %q applies to no request of the log", name)
	}
	all, shares := &Advice{}, &Shares{}
	for _, set := range order {
		units := make([]int64, len(set.Limits))
		for i := range set.Limits {
			s, err := suggest(set, i, identities[set])
			if err != nil {
				return nil, err
			}
			all.Limits, units[i] = append(all.Limits, s), s.Suggested
			if s.Suggested > 0 {
				all.Shares = shares
			}
		}
		for _, requests := range identities[set] {
			refused, err := replay(set, units, requests)
			if err != nil {
				return nil, err
			}
			shares.Identities, shares.Requests = shares.Identities+1, shares.Requests+int64(len(requests))
			shares.RefusedRequests += refused
			shares.RefusedIdentities += min(refused, 1)
		}
	}
	return all, nil
}

// suggest looks at one limit.
func suggest(set *rule.LimitSet, i int, identities map[string][]sent) (Suggestion, error) {
	l := &set.Limits[i]
	s := Suggestion{
		Limit: l.Name, Algorithm: l.Algorithm.String(), Window: l.Window, Now: l.Units,
		Identities: len(identities),
	}
	if l.Algorithm == algo.Concurrency {
		s.Why = "a log does not say how long requests are in flight"
		return s, nil
	}
	var least []int64
	for _, requests := range identities {
		n, err := leastLimit(set, i, requests)
		if err != nil {
			return s, err
		}
		least = append(least, n)
	}
	slices.Sort(least)
	at := func(share float64) int64 { return least[int(math.Ceil(share*float64(len(least))))-1] }
	s.P50, s.P90, s.P99, s.P999, s.Max = at(0.5), at(0.9), at(0.99), at(0.999), at(1)
	if len(least) < enough {
		s.Why = fmt.Sprintf("not enough data: %d identities (want %d)", len(least), enough)
		return s, nil
	}
	s.Suggested = s.P999
	s.Burst = withUnits(l.Limit, s.Suggested).Burst
	return s, nil
}

// leastLimit is the least limit that refuses none of an identity's requests. A burst grows with it.
func leastLimit(set *rule.LimitSet, i int, requests []sent) (int64, error) {
	total, most := int64(0), int64(1)
	for _, r := range requests {
		total, most = total+r.costs[i], max(most, r.costs[i])
	}
	// Between what the dearest request alone needs, and what all at once need.
	var wrong error
	least := 1 + sort.Search(int(max(most, total)-1), func(below int) bool {
		units := make([]int64, len(set.Limits))
		units[i] = int64(below) + 1
		refused, err := replay(set, units, requests)
		wrong = cmp.Or(wrong, err)
		return refused == 0
	})
	return int64(least), wrong
}

// withUnits is a limit of so many units. A burst grows in proportion.
func withUnits(l algo.Limit, units int64) algo.Limit {
	if l.Burst > 0 && l.Units > 0 {
		l.Burst = max(1, int64(math.Ceil(float64(l.Burst)/float64(l.Units)*float64(units))))
	}
	l.Units = units
	return l
}

// replay counts the requests of an identity that the algorithms' twins refuse with so many units in place of each
// limit's; a limit with 0 is left out.
func replay(set *rule.LimitSet, units []int64, requests []sent) (refused int64, err error) {
	var limits []algo.Limit
	var chosen []int
	calendar := false
	for i, n := range units {
		if n > 0 {
			limits, chosen = append(limits, withUnits(set.Limits[i].Limit, n)), append(chosen, i)
			calendar = calendar || set.Calendars != nil && set.Calendars[i] != nil
		}
	}
	if len(limits) == 0 {
		return 0, nil
	}
	plan, err := algo.NewPlan(limits)
	if err != nil {
		return 0, err
	}
	states, out, sized := make([]algo.State, len(limits)), make([]algo.Decision, len(limits)), plan
	costs, sizes := make([]int64, len(limits)), make([]algo.Size, len(limits))
	for n, r := range requests {
		for j, i := range chosen {
			costs[j], sizes[j] = r.costs[i], algo.Size{Units: limits[j].Units, Burst: limits[j].Burst}
			if set.Calendars != nil && set.Calendars[i] != nil {
				sizes[j].Bounds = set.Calendars[i].Around(r.atMicros)
			}
			if states[j] != nil && plan.ExpiresAtMicros(j, states[j]) < r.atMicros {
				states[j] = nil
			}
		}
		if calendar {
			sized, _ = plan.Sized(new(algo.Plan), sizes)
		}
		sized.Rebase(states, r.atMicros)
		if !sized.DecideAs(int64(n), states, r.atMicros, costs, out) {
			refused++
		}
	}
	return refused, nil
}
