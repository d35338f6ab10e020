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

// Suggest looks at what the identities of a rule have sent, each for itself and each limit for
// itself, by the algorithms' own twins.
func (l *Log) Suggest(rules *rule.Set, compiledWith *explain.Expressions, name string) ([]Suggestion, error) {
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
	var all []Suggestion
	for _, set := range order {
		for i := range set.Limits {
			s, err := suggest(set, i, identities[set])
			if err != nil {
				return nil, err
			}
			all = append(all, s)
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
		fits, err := admitsAll(set, i, int64(below)+1, requests)
		wrong = cmp.Or(wrong, err)
		return fits
	})
	return int64(least), wrong
}

// admitsAll replays an identity's requests through the algorithm's twin, with a limit of so many
// units.
func admitsAll(set *rule.LimitSet, i int, units int64, requests []sent) (bool, error) {
	l := set.Limits[i].Limit
	if l.Burst > 0 && l.Units > 0 {
		l.Burst = max(1, int64(math.Ceil(float64(l.Burst)/float64(l.Units)*float64(units))))
	}
	l.Units = units
	plan, err := algo.NewPlan([]algo.Limit{l})
	if err != nil {
		return false, err
	}
	states, out, sized := make([]algo.State, 1), make([]algo.Decision, 1), plan
	for n, r := range requests {
		if set.Calendars != nil && set.Calendars[i] != nil {
			size := algo.Size{Units: l.Units, Burst: l.Burst, Bounds: set.Calendars[i].Around(r.atMicros)}
			sized, _ = plan.Sized(new(algo.Plan), []algo.Size{size})
		}
		if states[0] != nil && plan.ExpiresAtMicros(0, states[0]) < r.atMicros {
			states[0] = nil
		}
		sized.Rebase(states, r.atMicros)
		if !sized.DecideAs(int64(n), states, r.atMicros, []int64{r.costs[i]}, out) {
			return false, nil
		}
	}
	return true, nil
}
