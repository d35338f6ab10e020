package simulate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/cmd/sluice/explain"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// Suggestion is a log's advice on one limit of a rule: the least limits at which it would have
// refused no request of so many identities.
type Suggestion struct {
	Limit      string `json:"limit"`
	Algorithm  string `json:"algorithm"`
	Window     string `json:"window"`
	Unit       string `json:"unit,omitempty"` // of what it counts; requests have none
	Now        int64  `json:"now"`            // as configured
	Identities int    `json:"identities"`
	// P50 to P999 are percentiles of those that are no outliers, and Max is what any identity needs.
	P50  int64 `json:"p50"`
	P90  int64 `json:"p90"`
	P99  int64 `json:"p99"`
	P999 int64 `json:"p999"`
	Max  int64 `json:"max"`
	// Suggested would have refused no request of the percentile that was asked for, among the
	// identities that are no outliers; 0: the log has too few identities to say so.
	Suggested int64 `json:"suggested"`
	// Fits is the percentage of identities that it suits, of many more like these, with a probability
	// of 95 %.
	Fits     float64   `json:"fits"`
	Outliers []Outlier `json:"outliers,omitempty"` // those who need most first
	Burst    int64     `json:"burst,omitempty"`    // with it, of a limit that has one
	// Why there is no suggestion.
	Why string `json:"why,omitempty"`
}

// Outlier is an identity that needs far more than all others.
type Outlier struct {
	Identity string `json:"identity"`
	Needs    int64  `json:"needs"`
}

// enough identities to suggest anything.
const enough = 50

// How far an outlier is above the next identity below it, and the identities of which one may be one.
const (
	outlierTimes = 3
	outlierShare = 20
	fewUnits     = 5 // less than that is not compared
)

// sent is one request of an identity.
type sent struct {
	atMicros int64
	costs    []int64
	released bool // its response gives back what it was charged
}

// Question is what is asked of a log.
type Question struct {
	Rule       string
	Percentile float64  // of the identities that are no outliers
	Without    []string // identities that do not count
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
func (l *Log) Suggest(
	cfg *config.Config, rules *rule.Set, compiledWith *explain.Expressions, q *Question,
) (*Advice, error) {
	l.settle(rules)
	identities := map[*rule.LimitSet]map[string][]sent{}
	var order []*rule.LimitSet
	var samples []*explain.Request
	var m rule.Matcher
	for r := l.next(); r != nil; r = l.next() {
		if len(samples) < maxSamples {
			samples = append(samples, r.http)
		}
		r.http.Use(compiledWith)
		applied, _, _ := rules.Apply(r.http, &m)
		for i := range applied {
			a := &applied[i]
			_, identity, _ := strings.Cut(string(a.Tag), "|")
			if a.Rule.Name != q.Rule || a.Limits == nil || a.Rule.Reports || slices.Contains(q.Without, identity) {
				continue
			}
			if identities[a.Limits] == nil {
				identities[a.Limits], order = map[string][]sent{}, append(order, a.Limits)
			}
			of, settle, resp := identities[a.Limits], a.Rule.Settle, response(r.status)
			released := settle != nil && r.status > 0 && settle.Worth(settle.AtHeaders(resp), resp).All
			of[identity] = append(of[identity], sent{l.beginMicros + r.atMicros, slices.Clone(a.Costs), released})
		}
	}
	if l.Err != nil {
		return nil, l.Err
	}
	if len(order) == 0 {
		return nil, fmt.Errorf("rule %q applies to no request of the log: %s; a log has only what its format writes "+
			"(--key names a field that identifies)", q.Rule, whyNot(cfg, []string{q.Rule}, samples)[q.Rule])
	}
	all, shares := &Advice{}, &Shares{}
	for _, set := range order {
		units := make([]int64, len(set.Limits))
		for i := range set.Limits {
			s, err := suggest(set, i, identities[set], q.Percentile)
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
func suggest(set *rule.LimitSet, i int, identities map[string][]sent, percentile float64) (Suggestion, error) {
	l := &set.Limits[i]
	s := Suggestion{
		Limit: l.Name, Algorithm: l.Algorithm.String(), Window: l.Window, Unit: l.Unit, Now: l.Units,
		Identities: len(identities),
	}
	if l.Algorithm == algo.Concurrency {
		s.Why = "a log does not say how long requests are in flight"
		return s, nil
	}
	var all []Outlier // each identity, and what it needs
	for identity, requests := range identities {
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
		if wrong != nil {
			return s, wrong
		}
		all = append(all, Outlier{identity, int64(least)})
	}
	slices.SortFunc(all, func(a, b Outlier) int {
		return cmp.Or(cmp.Compare(a.Needs, b.Needs), cmp.Compare(a.Identity, b.Identity))
	})
	at := func(share float64, of int) int64 { return all[max(1, int(math.Ceil(share*float64(of))))-1].Needs }
	rest := len(all)
	for n := len(all) - 1; len(all) >= enough && n >= len(all)-max(1, len(all)/outlierShare); n-- {
		if all[n].Needs > outlierTimes*max(all[n-1].Needs, fewUnits) {
			rest = n
		}
	}
	s.P50, s.P90, s.P99, s.P999, s.Max = at(0.5, rest), at(0.9, rest), at(0.99, rest), at(0.999, rest), at(1, len(all))
	if len(all) < enough {
		s.Why = fmt.Sprintf("not enough data: %d identities (want %d)", len(all), enough)
		return s, nil
	}
	s.Outliers = slices.Clone(all[rest:])
	slices.Reverse(s.Outliers)
	s.Suggested = at(percentile/100, rest)
	s.Burst = withUnits(l.Limit, s.Suggested).Burst
	fit := sort.Search(len(all), func(n int) bool { return all[n].Needs > s.Suggested })
	s.Fits = math.Floor(10000*surely(fit, len(all))) / 100
	return s, nil
}

// surely is the share of a population that is within what k of n drawn from it are within, at the least,
// with a probability of 95 % (Clopper and Pearson, Biometrika 26, 1934).
func surely(k, n int) float64 {
	chance := func(share float64) (sum float64) { // that k or more of n are within
		all, _ := math.Lgamma(float64(n + 1))
		for i := k; i <= n; i++ {
			these, _ := math.Lgamma(float64(i + 1))
			others, _ := math.Lgamma(float64(n - i + 1))
			sum += math.Exp(all - these - others + float64(i)*math.Log(share) + float64(n-i)*math.Log1p(-share))
		}
		return sum
	}
	low, high := 0.0, 1.0
	for range 50 {
		if middle := (low + high) / 2; chance(middle) < 0.05 {
			low = middle
		} else {
			high = middle
		}
	}
	return low
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
// limit's; a limit with 0 is left out. States that Redis would have expired may stay: no twin heeds what is over.
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
		}
		if calendar {
			sized, _ = plan.Sized(new(algo.Plan), sizes)
		}
		sized.Rebase(states, r.atMicros)
		switch {
		case !sized.DecideAs(int64(n), states, r.atMicros, costs, out):
			refused++
		case r.released:
			sized.RefundAs(int64(n), states, r.atMicros, r.atMicros, costs)
		}
	}
	return refused, nil
}
