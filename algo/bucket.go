package algo

import "math"

// bucket is the arithmetic that token_bucket, leaky_bucket and gcra share. A unit
// takes one interval of time to come back; how far the units in use reach ahead
// of now is the lead: the time until the bucket is full of tokens, drained, or on
// schedule again. The whole capacity is the tolerance.
//
// The Lua computes with doubles, so every sum must be exact in 53 bits. The
// interval window/limit is therefore rounded up to a whole number of ticks, a
// power-of-two fraction of a microsecond. Rounding it up admits at most 1/1024
// less than the limit, and never more.
//
// A state keeps the limit that its lead was counted with, and when. So it means
// units, and a limit with another rate or burst goes on with those: they take its
// own interval each, at most its tolerance together, and drain from when they were
// counted. What is owed beyond the tolerance is kept apart: it is one more tolerance
// at most.
type bucket struct {
	limit     int64 // Limit.Units
	window    int64 // us
	shift     uint  // a tick is 2^-shift us
	interval  int64 // ticks for one unit, at least 1
	tolerance int64 // ticks: interval * burst; 0 for a limit of 0
	capacity  int64 // units: burst
	room      int64 // units of it that the request's class may use
	ceiling   int64 // ticks: interval * room

	queue    bool
	maxDelay int64 // us
	period   int64 // us for which a batch's units may be spent; 0: there are no batches
}

// A bucket's State.
const (
	bucketAt       = iota // when it was counted, us since the Unix epoch
	bucketRest            // when the lead will have passed: whole us since then
	bucketFraction        // the rest, in 2^-maxShift us
	bucketLimit           // the limit that it was counted with
	bucketLen
	bucketDebt         = iota - 1 // how much of the lead is beyond the tolerance, whole us
	bucketDebtFraction            // in 2^-30 us
	bucketLenInDebt
	bucketRecent = iota - 4 // units of batches of this period, see lent
	bucketOlder             // of the period before
	bucketEnds              // when this period ends, us since the Unix epoch
	bucketLenLent
)

// maxShift is the finest tick: it resolves 1e9 units in 1 ms.
//
// Bound: bits after the point of a bucket's tick. Beyond it, ticks are no finer. Protects exact
// doubles.
const maxShift = 30

// grids are the choices of a tick, tried in order. The first one that divides the
// interval into enough ticks is used, so that rounding up costs at most 1/1024 of the
// rate. The coarser ones keep a tolerance of 1e9 units below 2^51 ticks, or, of
// long intervals, below the 100 years that validate allows: two of them add up
// exactly in a double. bucket.lua knows the same by comparisons.
var grids = [...]struct {
	shift      uint
	leastTicks int64
}{{0, 1 << 17}, {4, 1 << 10}, {12, 1 << 10}, {20, 1 << 10}, {maxShift, 0}}

// newBucket prepares the arithmetic of a limit within its bounds. A limit of 0
// has the interval of a limit of 1.
func newBucket(l *Limit) bucket {
	b := bucket{
		limit: l.Units, window: l.WindowMicros, capacity: l.burst(), room: l.roomOf(l.burst()),
		queue: l.Queue, maxDelay: l.MaxDelayMicros, period: l.LeaseMicros,
	}
	b.shift, b.interval = intervalOf(l.WindowMicros, max(l.Units, 1))
	if l.Indebted {
		b.room = 2 * b.capacity
	}
	b.tolerance, b.ceiling = b.interval*b.capacity, b.interval*b.room
	return b
}

// intervalOf is window/limit, rounded up to ticks, and which ticks.
func intervalOf(windowMicros, limit int64) (shift uint, ticks int64) {
	for _, grid := range grids {
		shift, ticks = grid.shift, ceilDiv(windowMicros<<grid.shift, limit)
		if ticks >= grid.leastTicks {
			break
		}
	}
	return shift, ticks
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }

// lead is how far the state reaches ahead of now, in ticks.
func (b *bucket) lead(s State, nowMicros int64) int64 {
	if !isBucket(s) {
		return 0
	}
	// What its units had when they were counted, at this limit's rate and at most its tolerance, and as
	// much of debt.
	counted, debt, tolerance := b.leadOf(s, s[bucketRest]-s[bucketAt], s[bucketFraction]), 0.0, float64(b.tolerance)
	if counted > tolerance {
		if len(s) == bucketLenInDebt {
			debt = b.leadOf(s, s[bucketDebt], s[bucketDebtFraction])
		}
		counted = min(counted-debt, tolerance) + min(debt, tolerance)
	}
	lead := b.drained(int64(counted), max(nowMicros, s[bucketAt])-s[bucketAt])
	if b.period > 0 && len(s) == bucketLenLent {
		// What lent units leave, however much has drained since.
		both, recent := b.least(lent{min(s[bucketRecent], b.capacity), min(s[bucketOlder], b.capacity), 0})
		over := nowMicros - s[bucketEnds]
		lead = max(lead, b.drained(both, max(over, 0)), b.drained(recent, max(over-b.period, 0)))
	}
	return lead
}

// drained returns the rest of a lead after so long.
func (b *bucket) drained(lead, micros int64) int64 {
	if micros < 0 || micros >= b.ceilMicros(lead) {
		return 0
	}
	return lead - micros<<b.shift
}

// isBucket reports whether the state is one that a bucket has written.
func isBucket(s State) bool {
	if len(s) == bucketLenInDebt && !(within(s[bucketDebt], 0, s[bucketRest]-s[bucketAt]) &&
		within(s[bucketDebtFraction], 0, 1<<maxShift-1)) {
		return false
	}
	if len(s) == bucketLenLent && !(within(s[bucketRecent], 0, MaxUnits) && within(s[bucketOlder], 0, MaxUnits) &&
		within(s[bucketEnds], 0, 1<<60)) {
		return false
	}
	known := len(s) == bucketLen || len(s) == bucketLenInDebt || len(s) == bucketLenLent
	return known && within(s[bucketLimit], 1, MaxUnits) &&
		within(s[bucketAt], 0, 1<<60) && within(s[bucketRest]-s[bucketAt], 0, 1<<53-1) &&
		within(s[bucketFraction], 0, 1<<maxShift-1)
}

// leadOf converts part of a state's lead to this limit's rate, in ticks. It computes with
// doubles, as the Lua does.
func (b *bucket) leadOf(s State, micros, fraction int64) float64 {
	scale := ticksPerMicro(b.shift)
	lead := doubleOf(micros, fraction)
	if s[bucketLimit] != b.limit {
		if interval, own := b.rateOf(s[bucketLimit]), float64(b.interval)/scale; interval != own {
			units := lead / interval
			lead = units * own
		}
	}
	return math.Ceil(lead * scale)
}

func ticksPerMicro(shift uint) float64 { return float64(int64(1) << shift) }

// ceilMicros turns ticks into microseconds.
func (b *bucket) ceilMicros(ticks int64) int64 {
	return (ticks + 1<<b.shift - 1) >> b.shift
}

// check decides cost, without charging it.
func (b *bucket) check(s State, nowMicros, cost int64) Decision {
	lead, l := b.lead(s, nowMicros), b.lent(s, nowMicros)
	d := uncharged(max(b.ceiling-lead, 0)/b.interval, b.until(0, lead, l, nowMicros))
	over := lead + cost*b.interval - b.ceiling
	if b.queue && lead > 0 {
		over = max(over, lead-min(b.maxDelay, b.ceilMicros(lead))<<b.shift)
	}
	switch {
	case cost <= 0:
	case cost > b.room:
		d.reject(Never)
	case over > 0:
		d.reject(b.until(lead-over, lead, l, nowMicros))
	case b.queue:
		d.DelayMicros = d.ResetAfterMicros
	}
	return d
}

// charge takes cost, which check has allowed, and brings d up to date.
func (b *bucket) charge(s State, nowMicros, cost int64, d *Decision) State {
	lead, l := b.lead(s, nowMicros)+cost*b.interval, b.lent(s, nowMicros)
	if b.period > 0 && cost > 1 { // a batch
		if l.units() == 0 {
			l.ends = nowMicros + b.period
		}
		l.recent += cost
	}
	d.Remaining -= cost
	d.ResetAfterMicros = b.until(0, lead, l, nowMicros)
	return b.store(s, nowMicros, lead, l)
}

// checkWait decides cost, without charging it, where what is over the burst waits.
func (b *bucket) checkWait(s State, nowMicros, cost int64) Decision {
	lead, free := b.lead(s, nowMicros), b.interval*b.capacity
	d := uncharged(max(free-lead, 0)/b.interval, b.ceilMicros(lead))
	switch {
	case cost <= 0:
	case cost > b.capacity:
		d.reject(Never)
	default:
		over := max(b.ceilMicros(lead+cost*b.interval-free), 0)
		if d.reject(max(over-b.maxDelay, 0)); d.Allowed {
			d.DelayMicros, d.WaitingUnits = over, max(cost-d.Remaining, 0)
		}
	}
	return d
}

// chargeWait takes cost, which checkWait has allowed, and brings d up to date.
func (b *bucket) chargeWait(s State, nowMicros, cost int64, d *Decision) State {
	lead := b.lead(s, nowMicros) + cost*b.interval
	d.Remaining -= cost - d.WaitingUnits
	d.ResetAfterMicros = b.ceilMicros(lead)
	return b.store(s, nowMicros, lead, lent{})
}

func (b *bucket) store(s State, nowMicros, lead int64, l lent) State {
	s = append(s[:0], nowMicros, nowMicros+lead>>b.shift, b.fraction(lead), b.limit)
	if l.units() > 0 {
		return append(s, l.recent, l.older, l.ends)
	}
	if debt := lead - b.tolerance; debt > 0 {
		s = append(s, debt>>b.shift, b.fraction(debt))
	}
	return s
}

// fraction is the part of a lead below a whole microsecond, in 2^-maxShift us.
func (b *bucket) fraction(ticks int64) int64 {
	return ticks & (1<<b.shift - 1) << (maxShift - b.shift)
}

// rebase makes a state that was counted in the future one that was counted now.
func (b *bucket) rebase(s State, nowMicros int64) (State, bool) {
	if !isBucket(s) || s[bucketAt] <= nowMicros {
		return s, false
	}
	s[bucketRest] += nowMicros - s[bucketAt]
	if len(s) == bucketLenLent {
		s[bucketEnds] += nowMicros - s[bucketAt]
	}
	s[bucketAt] = nowMicros
	return s, true
}

// refund gives cost back: it takes the units off what was counted, as if they had never been charged.
// So nothing is clamped to this limit's capacity, which may not be the one that charged the others.
// After a whole tolerance time itself has given them back.
func (b *bucket) refund(s State, chargedAtMicros, nowMicros, cost int64) State {
	if b.period > 0 {
		return b.refundLent(s, chargedAtMicros, nowMicros, cost, false)
	}
	r := b.recall(s)
	if r.size == 0 || nowMicros-chargedAtMicros >= b.ceilMicros(b.tolerance) {
		return s
	}
	past, back := float64(nowMicros-s[bucketAt]), float64(float64(cost)*r.rate)
	switch {
	case r.size <= past:
		return s
	case r.size-back <= past:
		return s[:0]
	}
	r.size, r.debt = r.size-back, r.debt-back
	return r.write(s, s[bucketAt], s[bucketLimit])
}

// debit charges cost at the time of an earlier charge, beyond the capacity if need be. What was counted
// with another limit stays so, and has drained at the slower rate of the two. A bucket that is empty now
// has drained ever since the charge. How long another one was empty is not known: it is taken to have
// drained all the time.
func (b *bucket) debit(s State, chargedAtMicros, nowMicros, cost int64) State {
	r, limit := b.recall(s), max(b.limit, 1)
	interval := b.rateOf(limit)
	if r.size > 0 {
		past := float64(nowMicros - s[bucketAt])
		if limit = s[bucketLimit]; r.rate < interval {
			past = math.Floor(past * r.rate / interval)
		}
		r.size, r.debt = r.size-past, max(r.debt-past, 0)
	}
	if r.size <= 0 {
		r, limit = recalled{rate: interval}, max(b.limit, 1)
	}
	capacity := float64(float64(b.capacity) * r.rate)
	owed := min(float64(float64(cost)*r.rate), 2*capacity)
	if r.size == 0 && chargedAtMicros < nowMicros {
		owed -= float64(nowMicros - chargedAtMicros)
	}
	free := max(capacity+r.debt-r.size, 0)
	if owed = min(owed, capacity-r.debt+free, 1<<53-1-r.size); owed <= 0 {
		return s
	}
	r.size, r.debt = r.size+owed, r.debt+max(owed-free, 0)
	return r.write(s, nowMicros, limit)
}

func (b *bucket) expires(s State) int64 {
	if !isBucket(s) {
		return 0
	}
	expires := s[bucketRest]
	if s[bucketFraction] > 0 {
		expires++
	}
	if len(s) == bucketLenLent {
		// When the units that were lent no longer matter.
		shift, ticks := intervalOf(b.window, s[bucketLimit])
		drains := func(units int64) int64 { return (units*ticks + 1<<shift - 1) >> shift }
		expires = max(expires, s[bucketEnds]+drains(s[bucketRecent]+s[bucketOlder]))
		if s[bucketRecent] > 0 {
			expires = max(expires, s[bucketEnds]+b.period+drains(s[bucketRecent]))
		}
	}
	return expires
}
