package config

import "github.com/sluiceproxy/sluice/algo"

// scope is where limits stand: in a rule, and in which of its tiers.
type scope struct {
	rule *Rule
	path string // of the rule
	tier int    // 0 without tiers
}

// limits reads the limits of a rule, or of one of its tiers.
func limits(v value, s scope) []Limit {
	elements, ok := v.nonEmptyList(`at least one limit such as {"algorithm": "gcra", "limit": 10, "window": "1s"}`)
	if !ok {
		return nil
	}
	before := len(v.r.mistakes)
	all := make([]Limit, 0, len(elements))
	plain := make([]algo.Limit, 0, len(elements))
	twins := map[twin]string{}
	for _, element := range elements {
		o, ok := element.object("algorithm", "limit", "window", "name", "burst", "anchor", "sub_windows", "overflow", "max_delay", "lease")
		if !ok {
			continue
		}
		limit, ok := readLimit(o, s, len(elements) > 1)
		if !ok {
			continue
		}
		checkTwin(o, twins, limit)
		all, plain = append(all, limit), append(plain, limit.Limit)
	}
	if len(v.r.mistakes) == before {
		// Whatever the algorithms refuse beyond the checks here.
		if _, err := algo.NewPolicy(plain); err != nil {
			v.mistake("%v", err)
		}
	}
	return all
}

// readLimit reads one limit. It reports false if the limit is too incomplete
// to be compared with others.
func readLimit(o object, s scope, several bool) (limit Limit, ok bool) {
	before := len(o.r.mistakes)
	var spelled string
	if v, ok := o.required("algorithm", `one such as "gcra"`); ok {
		limit.Algorithm = algorithm(v)
	}
	if v, ok := o.required("limit", "how many units a window admits"); ok {
		limit.Units, _ = v.whole(1, algo.MaxUnits)
	}
	if v, ok := o.required("window", `a duration such as "1s"`); ok {
		limit.WindowMicros, _ = v.duration(algo.MinWindowMicros, algo.MaxWindowMicros)
		limit.Window, spelled = FormatDuration(limit.WindowMicros), v.json.Str
	}
	limit.Policy = policyName(o, s, several, spelled)
	variant(o, &limit)
	lease(o, &limit, s.rule, several)
	s.checkCost(o, &limit)
	if len(o.r.mistakes) > before {
		return limit, limit.Algorithm != 0 && limit.WindowMicros > 0
	}
	if _, err := algo.NewPolicy([]algo.Limit{limit.Limit}); err != nil {
		o.mistake("%v", err)
	}
	return limit, true
}

func algorithm(v value) algo.Algorithm {
	var names []string
	for a := algo.FixedWindow; a <= algo.GCRA; a++ {
		names = append(names, a.String())
	}
	if i, ok := v.choice(names...); ok {
		return algo.FixedWindow + algo.Algorithm(i)
	}
	return 0
}

// variant reads the fields that belong to some algorithms only.
func variant(o object, limit *Limit) {
	o.readWhole("burst", &limit.Burst, 1, algo.MaxUnits)
	limit.FromFirstRequest = o.readChoice("anchor", "clock", "first_request") == 1
	o.readWhole("sub_windows", &limit.SubWindows, 1, algo.MaxSubWindows)
	limit.Queue = o.readChoice("overflow", "reject", "queue") == 1
	if limit.Queue {
		limit.MaxDelayMicros = defaultMaxDelayMicros
	}
	o.readDuration("max_delay", &limit.MaxDelayMicros, millisecond, hour)
	if limit.Algorithm == 0 {
		return
	}
	if !limit.Algorithm.HasBurst() {
		o.misplaced(limit.Algorithm, "burst", algo.TokenBucket, algo.LeakyBucket, algo.GCRA)
	}
	if limit.Algorithm != algo.FixedWindow {
		o.misplaced(limit.Algorithm, "anchor", algo.FixedWindow)
	}
	if limit.Algorithm != algo.SlidingWindowCounter {
		o.misplaced(limit.Algorithm, "sub_windows", algo.SlidingWindowCounter)
	} else if limit.SubWindows > 0 && limit.WindowMicros%limit.SubWindows != 0 {
		v, _ := o.field("sub_windows")
		v.mistake("%d parts do not divide the window %q evenly (want a number that does)", limit.SubWindows, limit.Window)
	}
	if limit.Algorithm != algo.LeakyBucket {
		o.misplaced(limit.Algorithm, "overflow", algo.LeakyBucket)
		o.misplaced(limit.Algorithm, "max_delay", algo.LeakyBucket)
	} else if !limit.Queue {
		o.refuse(`belongs to "overflow": "queue" only (remove it, or let the bucket queue)`, "max_delay")
	}
}

// defaultMaxDelayMicros is how long a queue holds a request at most.
const defaultMaxDelayMicros = 30 * second

// misplaced reports a field that belongs to other algorithms.
func (o object) misplaced(algorithm algo.Algorithm, field string, home ...algo.Algorithm) {
	if !o.has(field) {
		return
	}
	names := make([]string, len(home))
	for i, a := range home {
		names[i] = a.String()
	}
	o.mistake("%q does not belong to %q (remove it, or use %s)", field, algorithm.String(), quotedList(names))
}

// twin is what two limits of one rule may not share: they would share a key.
type twin struct {
	algorithm    algo.Algorithm
	windowMicros int64
}

func checkTwin(o object, paths map[twin]string, limit Limit) {
	t := twin{limit.Algorithm, limit.WindowMicros}
	if first, taken := paths[t]; taken {
		o.mistake("same algorithm and window as %s (want one of the two to differ)", first)
		return
	}
	paths[t] = o.path
}
