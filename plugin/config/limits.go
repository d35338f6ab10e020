package config

import (
	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/message"
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
	var drafts []draftLimit
	for _, element := range elements {
		if o, ok := element.readObject(limitFields...); ok {
			drafts = append(drafts, s.readLimit(o, len(elements) > 1))
		}
	}
	return s.nameLimits(drafts, len(elements) > 1)
}

// limitFields are all the fields of a limit.
var limitFields = []string{
	"algorithm", "limit", "window", "timezone", "starts", "name", "burst", "anchor", "sub_windows", "overflow", "max_delay", "ttl", "cost", "lease",
}

// draftLimit is a limit before it is compared with the others of its rule.
type draftLimit struct {
	Limit
	object
	spelled string // the window, as it is written
}

// readLimit reads one limit.
func (s scope) readLimit(o object, several bool) draftLimit {
	d := draftLimit{object: o}
	if v, ok := o.required("algorithm", `one such as "gcra"`); ok {
		d.Algorithm, _ = readWord(v, algorithms)
	}
	hasUnits := false
	if v, ok := o.required("limit", "how many units a window admits"); ok {
		d.Units, d.UnitsFrom, hasUnits = readUnits(v, 0)
	}
	d.readWindow()
	if v, ok := o.field("name"); ok {
		d.Name, _ = v.readName()
	}
	readVariant(o, &d.Limit)
	if o.has("cost") {
		cost := readCost(o)
		d.Cost = &cost
	}
	s.checkSlots(&d)
	if d.Queue && s.rule.Settle != nil {
		o.mistake(`a bucket that queues cannot be settled (remove "overflow", or the rule's "settle")`)
	}
	if d.isWhole() && hasUnits {
		checkRefill(o, &d.Limit)
		s.checkCost(o, &d.Limit)
	}
	s.readLease(o, &d.Limit, several)
	return d
}

// isWhole reports whether enough of a limit was read to compare it with others.
func (d *draftLimit) isWhole() bool {
	return d.Algorithm != 0 && (d.WindowMicros > 0 || !d.Algorithm.HasWindow())
}

// checkSlots reports slots that a settlement would be taken to settle.
func (s scope) checkSlots(d *draftLimit) {
	if d.Algorithm != 0 && !d.Algorithm.HasWindow() && d.Cost == nil && s.rule.Settle != nil && s.rule.Settle.Cost != nil {
		d.mistake(`"settle" has a "cost", which does not count slots (want a "cost" here)`)
	}
}

// algorithms are the algorithms that algo has.
var algorithms = func() (all words[algo.Algorithm]) {
	for _, a := range algo.Algorithms() {
		all = append(all, word[algo.Algorithm]{a, a.String()})
	}
	return all
}()

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
	if v, ok := o.field("burst"); ok {
		limit.Burst, limit.BurstFrom, _ = readUnits(v, 1)
	}
	readWordField(o, "anchor", anchors, &limit.FromFirstRequest)
	o.readWholeField("sub_windows", &limit.SubWindows, 1, algo.MaxSubWindows)
	readWordField(o, "overflow", overflows, &limit.Queue)
	if limit.Queue {
		limit.MaxDelayMicros = defaultMaxDelayMicros
	}
	o.readDurationField("max_delay", &limit.MaxDelayMicros, millisecond, maxQueueMicros)
	if limit.Algorithm.Takes(algo.FieldTTL) {
		limit.TTLMicros = defaultTTLMicros
	}
	o.readDurationField("ttl", &limit.TTLMicros, algo.MinTTLMicros, algo.MaxTTLMicros)
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
// to live that long. A limit of 0 has no state.
func checkRefill(o object, limit *Limit) {
	if limit.Units > 0 && limit.RestoreMicros() > algo.MaxRestoreMicros {
		o.mistake("the burst takes more than 100 years to refill (want burst * window / limit to be less)")
	}
}

// defaultMaxDelayMicros is how long a queue holds a request at most.
//
// Bound: us that a queue holds a request, unless `max_delay` says otherwise. Beyond it, the request
// is refused. Protects clients from waits without end.
const defaultMaxDelayMicros = 30 * second

// maxQueueMicros is the longest of those waits.
//
// Bound: us of `max_delay`. Beyond it, the configuration is refused. Protects clients from waits
// without end.
const maxQueueMicros = hour

// defaultTTLMicros is after how long the slots of a killed Envoy are free.
//
// Bound: us that a slot outlives its last renewal, unless `ttl` says otherwise. Beyond it, the slot
// ends. Protects limits from slots of a dead Envoy.
const defaultTTLMicros = 30 * second

// checkPlace reports the field in a limit of an algorithm that lacks it.
func checkPlace(o object, f algo.Field, algorithm algo.Algorithm) {
	if algorithm.Takes(f) || !o.has(f.String()) {
		return
	}
	var names []string
	for _, a := range algo.Algorithms() {
		if a.Takes(f) {
			names = append(names, a.String())
		}
	}
	o.refuse(message.Sprintf("does not belong to %q (remove it, or use %s)", algorithm.String(), quotedList(names)), f.String())
}
