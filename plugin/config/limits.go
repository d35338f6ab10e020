package config

import (
	"cmp"
	"strings"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/text"
)

// scope is where limits stand: in a rule, and in which of its tiers.
type scope struct {
	rule     *Rule
	rulePath string
	tier     int // 0 without tiers
}

// readLimits reads the limits of a rule, of one of its tiers, or of its "over".
func (s scope) readLimits(v value) []Limit {
	elements := v.readList(&limitsField)
	var drafts []*draftLimit
	for _, element := range elements {
		if o := element.readObject(limitFields); o.there {
			drafts = append(drafts, s.readLimit(o, len(elements) > 1))
		}
	}

	// A guarantee has one pool beside it. Then what does not go with a limit's levels.
	var guarantee, pool *draftLimit
	pools, single, queue := 0, true, ""
	for _, d := range drafts {
		if d.Queue {
			queue = d.path
		}
		switch {
		case d.Guarantee && guarantee != nil && single:
			d.mistake(`there are several limits with "guarantee" beside each other (want it in one, as in %s)`, guarantee.path)
			single = false
		case d.Guarantee && single:
			guarantee = d
		case d.mayGuarantee() && !d.Guarantee && !d.Steps && !d.has("per"):
			pool = d
			pools++
		}
	}
	switch {
	case guarantee == nil || !single:
	case pools != 1:
		guarantee.mistake(`"guarantee" has %d pools beside it (want exactly one limit without "per" that is a `+
			`"token_bucket" or "gcra")`, pools)
	case pool.has("cost"):
		pool.mistake(`"cost" is in the pool of a guarantee beside it (remove it: guarantee and pool take the rule's)`)
	default:
		pool.Pool = true
	}

	for _, d := range drafts {
		field := ""
		switch {
		case d.has("per"):
			field = "per"
		case d.has("ceiling"):
			field = "ceiling"
		case d.Guarantee:
			field = "guarantee"
		default:
			continue
		}
		if d.Steps && d.Guarantee {
			d.mistake(`"guarantee" does not go with "refill": "step" (remove one of the two)`)
		}
		if queue != "" {
			d.mistake(`%q does not go with a bucket that queues (remove it, or "overflow" of %s)`, field, queue)
		}
		if s.rule.Penalty != nil {
			d.mistake(`%q does not go with the rule's "penalty": what a part of an identity does blocks no other`+
				` (remove one of the two)`, field)
		}
	}
	return s.nameLimits(drafts, len(elements) > 1)
}

// draftLimit is a limit before it is compared with the others of its rule.
type draftLimit struct {
	Limit
	object
	spelled string // the window, as it is written
}

// readLimit reads one limit.
func (s scope) readLimit(o object, several bool) *draftLimit {
	d := &draftLimit{object: o}
	d.Algorithm = algo.Algorithm(1 + o.number("algorithm"))
	hasUnits := false
	if v, ok := o.field("limit"); ok {
		d.Units, d.UnitsFrom, hasUnits = readUnits(v, o.row("limit"))
	}
	d.readWindow()
	if v, ok := o.field("name"); ok {
		d.Name, _ = v.readName()
	}
	if v, ok := o.field("unit"); ok { // requests are the default of RateLimit-Policy
		const most = 32
		unit, ok := v.readText()
		lower := unit == strings.ToLower(unit) && isWord(unit, "-")
		if ok && !(unit != "" && len(unit) <= most && text.IsAlpha(unit[0]) && lower) {
			v.mistake(`%s is not a unit (want lower case letters, digits and "-", such as "tokens", at most %d)`,
				v.shown(), most)
		}
		if unit != "requests" {
			d.Unit = unit
		}
		if d.Unit != "" && d.isSlots() {
			o.refuse(`does not belong to "concurrency", whose unit is "concurrent-requests" (remove it)`, "unit")
		}
	}
	if d.Per = readComponents(o, "per"); o.has("per") {
		if !o.has("name") {
			o.mistake(`"name" is missing (want one such as "per-team": a limit with "per" has it in its keys)`)
		}
		d.PerID = string(text.AppendEscaped(nil, d.Name)) + "|"
	}
	if o.has("ceiling") {
		d.Ceiling, d.Classes = algo.MaxCeiling, readClasses(o.object("ceiling"))
	}
	d.readVariant()
	if o.has("cost") {
		cost := readCost(o)
		d.Cost = &cost
	}
	if d.Guarantee = o.is("guarantee"); d.Guarantee {
		if d.Per == nil && !o.has("per") {
			o.mistake(`"guarantee" is in a limit without "per" (want "per": whom it guarantees its units)`)
		}
		if d.Algorithm != 0 && !d.mayGuarantee() {
			o.mistake(`"guarantee" does not belong to %q (remove it, or use "token_bucket", "gcra")`, d.Algorithm.String())
		}
		if o.has("cost") {
			o.mistake(`"guarantee" is in a limit with a "cost" (remove it: guarantee and pool take the rule's)`)
		}
	}
	settle := s.rule.Settle
	if d.isSlots() && d.Cost == nil && settle != nil && settle.Cost != nil {
		o.mistake(`"settle" has a "cost", which does not count slots (want a "cost" here)`)
	}
	if d.Queue && settle != nil {
		o.mistake(`a bucket that queues cannot be settled (remove "overflow", or the rule's "settle")`)
	}
	if d.isWhole() && hasUnits {
		// The key of a bucket lives until it is full again. A limit of 0 has no state.
		if d.Units > 0 && d.RestoreMicros() > algo.MaxRestoreMicros {
			o.mistake("the burst takes more than 100 years to refill (want burst * window / limit to be less)")
		}
		s.checkCost(d)
	}
	s.readLease(d, several)
	if s.tier == overScope {
		d.Over = true
		if d.isSlots() {
			o.mistake(`"concurrency" does not pay: a request that is over holds no slots (want another algorithm)`)
		}
		if d.Queue {
			o.mistake(`a limit of "over" does not queue (remove "overflow")`)
		}
		o.refuse(`does not belong to a limit of "over" (remove it)`, "cost", "lease", "ceiling", "guarantee")
	}
	return d
}

// isSlots reports whether a limit is known to count what is held at a moment.
func (d *draftLimit) isSlots() bool { return d.Algorithm != 0 && !d.Algorithm.HasWindow() }

// mayGuarantee reports whether a limit can be a guarantee, or the pool of one.
func (d *draftLimit) mayGuarantee() bool {
	return d.Algorithm == algo.TokenBucket || d.Algorithm == algo.GCRA
}

// isWhole reports whether enough of a limit was read to compare it with others.
func (d *draftLimit) isWhole() bool {
	return d.Algorithm != 0 && (d.WindowMicros > 0 || !d.Algorithm.HasWindow())
}

// readVariant reads the fields that belong to some algorithms only.
func (d *draftLimit) readVariant() {
	if v, ok := d.field("burst"); ok {
		d.Burst, d.BurstFrom, _ = readUnits(v, d.row("burst"))
	}
	d.FromFirstRequest = d.is("anchor")
	if d.has("sub_windows") {
		d.SubWindows = d.number("sub_windows")
	}
	d.Steps = d.is("refill")
	d.Queue = d.is("overflow")
	longest := algo.FieldMaxDelay.String() // that a queue holds a request
	if d.Algorithm.Takes(algo.FieldMaxWait) || d.has(algo.FieldMaxWait.String()) {
		longest = algo.FieldMaxWait.String()
	}
	if d.Queue || d.has(longest) {
		d.MaxDelayMicros = d.number(longest)
	}
	if d.Algorithm.Takes(algo.FieldTTL) || d.has("ttl") {
		d.TTLMicros = d.number("ttl")
	}
	if d.Algorithm == 0 {
		return
	}
	for f := range algo.Fields {
		if !d.Algorithm.Takes(f) && d.has(f.String()) {
			others := quotedList(algorithmNames(func(a algo.Algorithm) bool { return a.Takes(f) }))
			d.mistake("%q does not belong to %q (remove it, or use %s)", f.String(), d.Algorithm.String(), others)
		}
	}
	for _, f := range []algo.Field{algo.FieldMaxDelay, algo.FieldMaxWait} {
		if !d.Queue && d.Algorithm.Takes(f) {
			d.refuse(`belongs to "overflow": "queue" only (remove it, or let the bucket queue)`, f.String())
		}
	}
	if d.Queue && d.Algorithm.Takes(algo.FieldRefill) && d.Steps {
		d.mistake(`a bucket that is refilled in steps does not queue (remove "overflow", or "refill")`)
	}
	if d.SubWindows > 0 && d.WindowMicros%d.SubWindows != 0 {
		v, _ := d.field("sub_windows")
		v.mistake("%d parts do not divide the window %q evenly (want a number that does)", d.SubWindows, d.Window)
	}
}

// read reads an object that says where an amount comes from. The default must be one that the
// amount itself can be.
func (a *Amount) read(o object) {
	a.readSource(o)
	a.Default, a.Max = o.number("default"), o.number("max")
	if a.Max > 0 && a.Default > a.Max {
		o.mistake(`"default" %d is above "max" %d (want at most that)`, a.Default, a.Max)
	}
}

// readSource reads where an amount comes from.
func (a *Amount) readSource(o object) {
	switch name, v, _ := o.choice(); name {
	case "header":
		a.Header, _ = v.readHeaderName()
	case "expr":
		a.Expr = readExpression(v, NumberExpression)
	case "metadata":
		a.Metadata = readAttributePath(v)
	case "property":
		a.Property = readAttributePath(v)
	}
}

// readUnits reads a "limit", a "burst" or a "cost": a whole number, or an object that says
// where the number of each request comes from. Then units are the largest.
func readUnits(v value, f *field) (units int64, from *Amount, ok bool) {
	if !v.json.IsObject() {
		units, ok = v.readWhole(f.low, f.high)
		return units, nil, ok
	}
	from = &Amount{}
	from.read(v.readObject(f.fields))
	return from.Max, from, from.Max > 0
}

// readCost reads the "cost" of a rule or of a limit.
func readCost(o object) Amount {
	c := Amount{Default: 1, Max: algo.MaxCost}
	if v, ok := o.field("cost"); ok {
		if units, from, ok := readUnits(v, o.row("cost")); from != nil {
			c = *from
		} else if ok {
			c.Default = units
		}
	}
	return c
}

// checkCost reports a constant cost that the limit can never admit. The largest cost
// that a header may ask for can be above the capacity: such a request is rejected. A
// limit of 0 is meant to reject every cost.
func (s scope) checkCost(d *draftLimit) {
	cost, capacity := cmp.Or(d.Cost, &s.rule.Cost), d.Capacity()
	what := "the capacity"
	if d.Classes != nil && capacity > 0 {
		lowest := d.Limit.Limit
		lowest.Ceiling = d.Classes.Lowest()
		capacity, what = lowest.Room(), "the lowest class's part"
	}
	if capacity == 0 || cost.Default <= capacity {
		return
	}
	path := s.rulePath + ".cost"
	if d.Cost != nil {
		path = d.path + ".cost"
	}
	if !cost.IsConstant() {
		path += ".default"
	}
	d.r.mistake(path, "%d is above %s %d of %s, which never admits it (want at most %d)",
		cost.Default, what, capacity, d.path, capacity)
}

// readLease reads a limit's "lease". It refuses one where the units that a worker
// holds could admit more than the rule allows, or would mean nothing.
func (s scope) readLease(d *draftLimit, several bool) {
	fields := d.object.object("lease")
	if !fields.there {
		return
	}
	d.Lease = &Lease{Units: fields.number("units"), TTLMicros: fields.number("ttl")}
	if d.Algorithm.HasBurst() && !d.Queue {
		// A batch waits for the one before to be spent, for a ttl at most. More than a window is a
		// mistake, see below.
		d.LeaseMicros = 2 * min(d.Lease.TTLMicros, d.WindowMicros)
	}
	if capacity := d.Capacity(); capacity > 0 && d.Lease.Units > capacity {
		fields.mistake(`"units" %d is above the limit's capacity %d (want at most that)`, d.Lease.Units, capacity)
	}
	if d.WindowMicros > 0 && d.Lease.TTLMicros > d.WindowMicros {
		fields.mistake(`"ttl" %q is above the window %q (want at most that)`,
			algo.FormatDuration(d.Lease.TTLMicros), d.Window)
	}
	cost, why := cmp.Or(d.Cost, &s.rule.Cost), ""
	switch {
	case several:
		why = "the rule has several limits, which only Redis can decide together"
	case d.Cost != nil && (!cost.IsConstant() || cost.Default != 1):
		why = "the limit's cost is not the constant 1"
	case !cost.IsConstant() || cost.Default != 1:
		why = "the rule's cost is not the constant 1"
	case d.Per != nil:
		why = `the limit has "per"`
	case d.Ceiling != 0:
		why = `the limit has a "ceiling"`
	case d.UnitsFrom != nil || d.BurstFrom != nil:
		why = "the limit comes with the request"
	case s.rule.Settle != nil:
		why = "the rule settles what was charged"
	case s.rule.Overrides:
		why = "the rule has overrides, which a worker would not hear of while it spends its units"
	case s.rule.Penalty != nil:
		why = "the rule has a penalty, which a worker would not hear of while it spends its units"
	default:
		if err := d.Leasable(); err != nil {
			why = err.Error()
		}
	}
	if why != "" {
		d.mistake(`"lease" cannot be used here: %s (remove it)`, why)
	}
}
