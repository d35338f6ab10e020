package config

import (
	"fmt"

	"github.com/sluiceproxy/sluice/algo"
)

// scope is where limits stand: in a rule, and in which of its tiers.
type scope struct {
	rule     *Rule
	rulePath string
	tier     int // 0 without tiers
}

// readLimits reads the limits of a rule, or of one of its tiers.
func readLimits(v value, s scope) []Limit {
	elements, ok := v.readNonEmptyList(`at least one limit such as {"algorithm": "gcra", "limit": 10, "window": "1s"}`)
	if !ok {
		return nil
	}
	if len(elements) > algo.MaxLimits {
		v.mistake("there are %d limits (want at most %d)", len(elements), algo.MaxLimits)
	}
	all := make([]Limit, 0, len(elements))
	twins := map[string]string{}
	for _, element := range elements {
		o, ok := element.readObject("algorithm", "limit", "window", "name", "burst", "anchor", "sub_windows", "overflow", "max_delay", "lease")
		if !ok {
			continue
		}
		limit, ok := readLimit(o, s, len(elements) > 1)
		if !ok {
			continue
		}
		if !isTwin(o, twins, limit) {
			s.claim(o, limit.Name)
		}
		all = append(all, limit)
	}
	return all
}

// readLimit reads one limit. It reports false if the limit is too incomplete
// to be compared with others.
func readLimit(o object, s scope, several bool) (limit Limit, ok bool) {
	var spelled string
	if v, ok := o.required("algorithm", `one such as "gcra"`); ok {
		limit.Algorithm, _ = readWord(v, algorithms())
	}
	if v, ok := o.required("limit", "how many units a window admits"); ok {
		limit.Units, _ = v.readWhole(1, algo.MaxUnits)
	}
	if v, ok := o.required("window", `a duration such as "1s"`); ok {
		limit.WindowMicros, _ = v.readDuration(algo.MinWindowMicros, algo.MaxWindowMicros)
		limit.Window, spelled = FormatDuration(limit.WindowMicros), v.json.Str
	}
	limit.Name = readLimitName(o, s, several, spelled)
	readVariant(o, &limit)
	if limit.Algorithm != 0 && limit.Units > 0 && limit.WindowMicros > 0 {
		checkRefill(o, &limit)
		s.checkCost(o, &limit)
	}
	readLease(o, &limit, s.rule, several)
	return limit, limit.Algorithm != 0 && limit.WindowMicros > 0
}

// algorithms are the algorithms that algo has.
func algorithms() words[algo.Algorithm] {
	var all words[algo.Algorithm]
	for _, a := range algo.Algorithms() {
		all = append(all, word[algo.Algorithm]{a, a.String()})
	}
	return all
}

// anchors say whether a window starts with its first request.
var anchors = words[bool]{
	{false, "clock"},
	{true, "first_request"},
}

// overflows say whether a bucket queues what does not fit at once.
var overflows = words[bool]{
	{false, "reject"},
	{true, "queue"},
}

// readVariant reads the fields that belong to some algorithms only.
func readVariant(o object, limit *Limit) {
	o.readWholeField("burst", &limit.Burst, 1, algo.MaxUnits)
	readWordField(o, "anchor", anchors, &limit.FromFirstRequest)
	o.readWholeField("sub_windows", &limit.SubWindows, 1, algo.MaxSubWindows)
	readWordField(o, "overflow", overflows, &limit.Queue)
	if limit.Queue {
		limit.MaxDelayMicros = defaultMaxDelayMicros
	}
	o.readDurationField("max_delay", &limit.MaxDelayMicros, millisecond, hour)
	if limit.Algorithm == 0 {
		return
	}
	for _, f := range algo.AllFields() {
		checkPlace(o, f, limit.Algorithm)
	}
	if limit.Algorithm.Takes(algo.FieldMaxDelay) && !limit.Queue {
		o.refuse(`belongs to "overflow": "queue" only (remove it, or let the bucket queue)`, "max_delay")
	}
	if limit.SubWindows > 0 && limit.WindowMicros%limit.SubWindows != 0 {
		v, _ := o.field("sub_windows")
		v.mistake("%d parts do not divide the window %q evenly (want a number that does)", limit.SubWindows, limit.Window)
	}
}

// checkRefill reports a bucket that takes too long to be full again. Its key has
// to live that long.
func checkRefill(o object, limit *Limit) {
	if limit.RestoreMicros() > algo.MaxRestoreMicros {
		o.mistake("the burst takes more than 100 years to refill (want burst * window / limit to be less)")
	}
}

// defaultMaxDelayMicros is how long a queue holds a request at most.
const defaultMaxDelayMicros = 30 * second

// checkPlace reports the field in a limit of an algorithm that lacks it.
func checkPlace(o object, f algo.Field, algorithm algo.Algorithm) {
	if algorithm.Takes(f) {
		return
	}
	var names []string
	for _, a := range algo.Algorithms() {
		if a.Takes(f) {
			names = append(names, a.String())
		}
	}
	o.refuse(fmt.Sprintf("does not belong to %q (remove it, or use %s)", algorithm.String(), quotedList(names)), f.String())
}

// isTwin reports a limit that would share its key with one before it. paths has
// those so far, by the suffixes of their keys.
func isTwin(o object, paths map[string]string, limit Limit) bool {
	suffix := limit.KeySuffix()
	first, taken := paths[suffix]
	if taken {
		o.mistake("same algorithm and window as %s (want one of the two to differ)", first)
	} else {
		paths[suffix] = o.path
	}
	return taken
}
