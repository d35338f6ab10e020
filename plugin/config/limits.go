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
		if o := element.readObject(limitFields); o.there {
			drafts = append(drafts, s.readLimit(o, len(elements) > 1))
		}
	}
	s.checkLevels(drafts)
	return s.nameLimits(drafts, len(elements) > 1)
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
	d.Algorithm = algo.Algorithm(1 + o.number("algorithm"))
	hasUnits := false
	if v, ok := o.field("limit"); ok {
		d.Units, d.UnitsFrom, hasUnits = readUnits(v, o.row("limit"))
	}
	d.readWindow()
	d.Name = get(o, "name", readNameOf)
	d.Unit = get(o, "unit", readUnit)
	if d.Unit != "" && d.Algorithm != 0 && !d.Algorithm.HasWindow() {
		o.refuse(`does not belong to "concurrency", whose unit is "concurrent-requests" (remove it)`, "unit")
	}
	readPer(o, &d.Limit)
	if v, ok := o.field("ceiling"); ok {
		d.Ceiling, d.Classes = algo.MaxCeiling, readClasses(v)
	}
	readVariant(o, &d.Limit)
	if o.has("cost") {
		cost := readCost(o)
		d.Cost = &cost
	}
	readGuarantee(o, &d.Limit)
	s.checkSlots(&d)
	if d.Queue && s.rule.Settle != nil {
		o.mistake(`a bucket that queues cannot be settled (remove "overflow", or the rule's "settle")`)
	}
	if d.isWhole() && hasUnits {
		checkRefill(o, &d.Limit)
		s.checkCost(o, &d.Limit)
	}
	s.readLease(o, &d.Limit, several)
	s.checkPays(&d)
	return d
}

// readUnit reads what a limit counts, as RateLimit-Policy says it. Requests are the default there.
func readUnit(v value) string {
	const most = 32
	unit, ok := v.readText()
	good := unit != "" && len(unit) <= most && unit[0] >= 'a' && unit[0] <= 'z'
	for _, c := range []byte(unit) {
		good = good && (c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-')
	}
	if ok && !good {
		v.mistake(`%s is not a unit (want lower case letters, digits and "-", such as "tokens", at most %d)`, v.shown(), most)
	}
	if unit == "requests" {
		return ""
	}
	return unit
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

// readVariant reads the fields that belong to some algorithms only.
func readVariant(o object, limit *Limit) {
	if v, ok := o.field("burst"); ok {
		limit.Burst, limit.BurstFrom, _ = readUnits(v, o.row("burst"))
	}
	limit.FromFirstRequest = o.is("anchor")
	if o.has("sub_windows") {
		limit.SubWindows = o.number("sub_windows")
	}
	limit.Steps = o.is("refill")
	readQueue(o, limit)
	if limit.Algorithm.Takes(algo.FieldTTL) || o.has("ttl") {
		limit.TTLMicros = o.number("ttl")
	}
	if limit.Algorithm == 0 {
		return
	}
	for f := range algo.Fields {
		checkPlace(o, f, limit.Algorithm)
	}
	checkQueue(o, limit)
	if limit.SubWindows > 0 && limit.WindowMicros%limit.SubWindows != 0 {
		v, _ := o.field("sub_windows")
		v.mistake("%d parts do not divide the window %q evenly (want a number that does)", limit.SubWindows, limit.Window)
	}
}

// readQueue reads whether a bucket queues, and how long it may hold a request.
func readQueue(o object, limit *Limit) {
	limit.Queue = o.is("overflow")
	longest := algo.FieldMaxDelay.String()
	if limit.Algorithm.Takes(algo.FieldMaxWait) || o.has(algo.FieldMaxWait.String()) {
		longest = algo.FieldMaxWait.String()
	}
	if limit.Queue || o.has(longest) {
		limit.MaxDelayMicros = o.number(longest)
	}
}

// checkQueue reports what does not go together with a queue, or without one.
func checkQueue(o object, limit *Limit) {
	if !limit.Queue {
		for _, f := range []algo.Field{algo.FieldMaxDelay, algo.FieldMaxWait} {
			if limit.Algorithm.Takes(f) {
				o.refuse(`belongs to "overflow": "queue" only (remove it, or let the bucket queue)`, f.String())
			}
		}
		return
	}
	if limit.Algorithm.Takes(algo.FieldRefill) && limit.Steps {
		o.mistake(`a bucket that is refilled in steps does not queue (remove "overflow", or "refill")`)
	}
}

// checkRefill reports a bucket that takes too long to be full again. Its key has
// to live that long. A limit of 0 has no state.
func checkRefill(o object, limit *Limit) {
	if limit.Units > 0 && limit.RestoreMicros() > algo.MaxRestoreMicros {
		o.mistake("the burst takes more than 100 years to refill (want burst * window / limit to be less)")
	}
}

// checkPlace reports the field in a limit of an algorithm that lacks it.
func checkPlace(o object, f algo.Field, algorithm algo.Algorithm) {
	if algorithm.Takes(f) || !o.has(f.String()) {
		return
	}
	others := quotedList(algorithmNames(func(a algo.Algorithm) bool { return a.Takes(f) }))
	o.refuse(message.Sprintf("does not belong to %q (remove it, or use %s)", algorithm.String(), others), f.String())
}

// readSource reads where an amount comes from.
func (a *Amount) readSource(o object) {
	name, v, ok := o.choice()
	if !ok {
		return
	}
	switch Source(placeOf(sourceFields, name)) {
	case FromHeader:
		a.Header, _ = v.readHeaderName()
	case FromExpr:
		a.Expr = readExpression(v, NumberExpression)
	case FromMetadata:
		a.Metadata = readAttributePath(v)
	case FromProperty:
		a.Property = readAttributePath(v)
	}
}

// readBounds reads the "default" and the "max" of an amount. The default must be one
// that the amount itself can be.
func (a *Amount) readBounds(o object) {
	a.Default, a.Max = o.number("default"), o.number("max")
	if a.Max > 0 && a.Default > a.Max {
		o.mistake(`"default" %d is above "max" %d (want at most that)`, a.Default, a.Max)
	}
}

// readUnits reads a "limit" or a "burst": a whole number, or an object that says
// where the number of each request comes from. Then units are the largest.
func readUnits(v value, f *field) (units int64, from *Amount, ok bool) {
	if !v.json.IsObject() {
		units, ok = v.readWhole(f.low, f.high)
		return units, nil, ok
	}
	o := v.readObject(f.fields)
	from = &Amount{}
	from.readSource(o)
	from.readBounds(o)
	return from.Max, from, from.Max > 0
}

// readCost reads the "cost" of a rule or of a limit.
func readCost(o object) Amount {
	c, f := Amount{Default: 1, Max: algo.MaxCost}, o.row("cost")
	v, ok := o.field("cost")
	if !ok {
		return c
	}
	if !v.json.IsObject() {
		if n, ok := v.readWhole(f.low, f.high); ok {
			c.Default = n
		}
		return c
	}
	o = v.readObject(f.fields)
	c.readSource(o)
	c.readBounds(o)
	return c
}

// costOf is a request's cost for a limit: the limit's own, or the rule's.
func (s scope) costOf(limit *Limit) *Amount {
	if limit.Cost != nil {
		return limit.Cost
	}
	return &s.rule.Cost
}

// checkCost reports a constant cost that the limit can never admit. The largest cost
// that a header may ask for can be above the capacity: such a request is rejected. A
// limit of 0 is meant to reject every cost.
func (s scope) checkCost(o object, limit *Limit) {
	cost, capacity := s.costOf(limit), limit.Capacity()
	what := "the capacity"
	if limit.Classes != nil && capacity > 0 {
		lowest := limit.Limit
		lowest.Ceiling = limit.Classes.Lowest()
		capacity, what = lowest.Room(), "the lowest class's part"
	}
	if capacity == 0 || cost.Default <= capacity {
		return
	}
	path := s.rulePath + ".cost"
	if limit.Cost != nil {
		path = o.path + ".cost"
	}
	if !cost.IsConstant() {
		path += ".default"
	}
	o.r.mistake(path, "%d is above %s %d of %s, which never admits it (want at most %d)",
		cost.Default, what, capacity, o.path, capacity)
}
