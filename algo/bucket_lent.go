package algo

// A bucket drains while a worker holds units of it that it has charged and not yet spent. Were
// the bucket to forget them, they would be admitted a second time. So a bucket of which workers
// take batches knows how many units they may hold, and never drains below them.
//
// Let held be the units that workers hold, and level what requests that went on have left in
// the bucket. The lead is never below their sum: a charge adds to both sides, spending a unit
// moves it from held to level, and giving one back takes it off both sides. Time lowers the
// lead, but never below the units lent lately, and of those are all that are held. As a lead is
// never above the tolerance, nor is the level, however many workers there are.

// lent is how many units were lent lately: those of all batches of a period that is as long as a
// batch's units may be spent, and of the period before. So a batch counts for one period at
// least, and two at most.
type lent struct {
	recent int64 // units lent in this period
	older  int64 // in the one before
	ends   int64 // when this period ends, us since the Unix epoch; 0 if there are none
}

func (l *lent) units() int64 { return l.recent + l.older }

// lentIn is what a state says was lent.
func lentIn(s State) (l lent) {
	if len(s) == bucketLenLent {
		l = lent{s[bucketRecent], s[bucketOlder], s[bucketEnds]}
	}
	return l
}

// roll goes on to the period that now is in.
func (l *lent) roll(nowMicros, period int64) {
	switch {
	case nowMicros >= l.ends+period:
		*l = lent{}
	case nowMicros >= l.ends:
		*l = lent{0, l.recent, l.ends + period}
	}
	if l.units() == 0 {
		*l = lent{}
	}
}

// lent holds the state as of now.
func (b *bucket) lent(s State, nowMicros int64) (l lent) {
	if b.period == 0 || !isBucket(s) {
		return l
	}
	l = lentIn(s)
	l.recent, l.older = min(l.recent, b.capacity), min(l.older, b.capacity)
	l.roll(nowMicros, b.period)
	return l
}

// least is the lead below which the bucket does not drain before the period ends, and before the
// next one does.
func (b *bucket) least(l lent) (now, next int64) {
	return min(l.units(), b.capacity) * b.interval, min(l.recent, b.capacity) * b.interval
}

// until is the time until a lead has drained to another one, in us, rounded up.
func (b *bucket) until(to, lead int64, l lent, nowMicros int64) int64 {
	wait := b.ceilMicros(lead - to)
	both, recent := b.least(l)
	if both > to {
		wait = max(wait, l.ends-nowMicros+b.ceilMicros(both-to))
	}
	if recent > to {
		wait = max(wait, l.ends+b.period-nowMicros+b.ceilMicros(recent-to))
	}
	return wait
}

// refundLent gives units back: of a batch, or of a request. Units of a batch that are no longer
// counted as lent have begun to drain. As in refund nothing is clamped; but what was lent and is no
// longer drains from now on.
func (b *bucket) refundLent(s State, chargedAtMicros, nowMicros, cost int64, batch bool) State {
	r := b.recall(s)
	if r.size == 0 {
		return s
	}
	l, drained, limit := lentIn(s), float64(nowMicros-s[bucketAt]), s[bucketLimit]
	// What lent units leave of the size, however much has drained since, at the rate that it was counted with.
	both, recent, past := float64(float64(l.units())*r.rate), float64(float64(l.recent)*r.rate), nowMicros-l.ends
	least := max(both-float64(max(past, 0)), recent-float64(max(past-b.period, 0)))
	r.size, r.debt = max(r.size-drained, least, 0), max(r.debt-drained, 0)
	l.roll(nowMicros, b.period)
	back := float64(float64(cost) * r.rate)
	switch {
	case r.size == 0 || !batch && nowMicros-chargedAtMicros >= b.ceilMicros(b.tolerance):
		return s
	case batch && l.giveBack(cost, chargedAtMicros, b.period) < cost:
		back = max(back-float64(max(nowMicros-chargedAtMicros-b.period, 0)), 0)
	}
	r.size, r.debt = max(r.size-back, float64(float64(l.units())*r.rate)), r.debt-back
	switch {
	case r.size <= 0:
		return s[:0]
	case l.units() > 0:
		r.debt = 0
		return append(r.write(s, nowMicros, limit), l.recent, l.older, l.ends)
	}
	return r.write(s, nowMicros, limit)
}

// giveBack takes so many units off those of the period in which they were lent. It returns how
// many there were.
func (l *lent) giveBack(units, chargedAtMicros, period int64) (known int64) {
	of := &l.recent
	switch {
	case chargedAtMicros >= l.ends-period:
	case chargedAtMicros >= l.ends-2*period:
		of = &l.older
	default:
		return 0
	}
	known = min(units, *of)
	*of -= known
	return known
}

// endBatch takes what is over of a batch off the units that were lent. From now on the bucket
// drains as if they had been spent.
func (b *bucket) endBatch(s State, nowMicros int64, over Over) State {
	lead, l := b.lead(s, nowMicros), b.lent(s, nowMicros)
	if l.giveBack(over.Units, over.ChargedMicros, b.period) == 0 {
		return s
	}
	return b.store(s, nowMicros, lead, l)
}

// recalled is what a state counted, clamped to nothing, in microseconds of time at the rate that it
// was counted with. Like leadOf, all that is done with it is done with doubles, as in the Lua.
type recalled struct {
	size, debt float64
	rate       float64 // for one unit
}

func (b *bucket) recall(s State) (r recalled) {
	if !isBucket(s) {
		return r
	}
	r.size, r.rate = doubleOf(s[bucketRest]-s[bucketAt], s[bucketFraction]), b.rateOf(s[bucketLimit])
	if len(s) == bucketLenInDebt {
		r.debt = doubleOf(s[bucketDebt], s[bucketDebtFraction])
	}
	return r
}

// doubleOf and wholeOf turn whole microseconds with a fraction in 2^-maxShift into one number, and back.
func doubleOf(micros, fraction int64) float64 {
	return float64(micros) + float64(fraction)/ticksPerMicro(maxShift)
}

func wholeOf(micros float64) (whole, fraction int64) {
	whole = int64(micros)
	return whole, int64((micros - float64(whole)) * ticksPerMicro(maxShift))
}

// rateOf is the interval of a limit with this window, in microseconds.
func (b *bucket) rateOf(limit int64) float64 {
	shift, ticks := intervalOf(b.window, limit)
	return float64(ticks) / ticksPerMicro(shift)
}

// write writes down what was counted at some time, with some limit.
func (r *recalled) write(s State, atMicros, limit int64) State {
	whole, fraction := wholeOf(r.size)
	s = append(s[:0], atMicros, atMicros+whole, fraction, limit)
	if r.debt > 0 {
		whole, fraction = wholeOf(r.debt)
		s = append(s, whole, fraction)
	}
	return s
}
