package algo

import (
	"math/bits"
	"strconv"
)

// bucket is the arithmetic that token_bucket, leaky_bucket and gcra share. Each
// keeps one time, at which the bucket is back to rest: full of tokens, drained,
// or on schedule. How far it lies ahead of now, the lead, is what is in use: a
// unit takes one interval of it, and the whole capacity is the tolerance.
//
// The Lua computes with doubles, so every sum must be exact in 53 bits. The
// interval window/limit is therefore rounded up to a whole number of ticks, a
// power-of-two fraction of a microsecond, and the clock is taken modulo wrap,
// also a power of two: what is ahead of now by more than half of it is behind.
// Rounding the interval up admits at most 1/1024 less than the limit, and never
// more.
//
// Wraps divide each other, so a stored time keeps its meaning when a change of
// the limit or burst makes the wrap smaller. When it makes it larger, the old
// time reads as one of the past or as one up to half a wrap ahead; the key still
// expires when it would have.
type bucket struct {
	shift     uint  // a tick is 2^-shift us
	wrap      int64 // us
	interval  int64 // ticks for one unit, at least 1
	tolerance int64 // ticks: interval * burst
	capacity  int64 // units: burst

	queue    bool
	maxDelay int64 // us
}

// A bucket's State is the time at which it is back to rest.
const (
	bucketMicros   = iota // whole us since the Unix epoch
	bucketFraction        // the rest, in 2^-maxShift us
	bucketLen
)

// maxShift is the finest tick: it resolves 1e9 units in 1 ms.
const maxShift = 30

// precision is the fewest ticks of an interval, whose rounding up then costs at
// most 1/precision of the rate.
const precision = 1024

// grid is one choice of tick and wrap. Twice the wrap is 2^53 ticks: a time on
// the clock plus a lead is exact in a double.
type grid struct {
	shift uint
	wrap  int64
}

// grids are tried in order, the coarsest whose ticks are fine enough is taken.
// Only the first, for leads of 4 to 100 years, has a wrap of 2^53 ticks: its
// sums are exact until the year 2155.
var grids = [...]grid{
	{0, 1 << 53},
	{4, 1 << 48},
	{12, 1 << 40},
	{20, 1 << 32},
	{maxShift, 1 << 22},
}

// newBucket prepares the arithmetic of a limit within its bounds.
func newBucket(l *Limit) bucket {
	burst := l.Capacity()
	g := gridOf(l, burst)
	interval := ceilDiv(l.WindowMicros<<g.shift, l.Units)
	return bucket{
		shift: g.shift, wrap: g.wrap,
		interval: interval, tolerance: interval * burst, capacity: burst,
		queue: l.Queue, maxDelay: min(l.MaxDelayMicros, g.wrap),
	}
}

func gridOf(l *Limit, burst int64) grid {
	for _, g := range grids[1:] {
		interval := ceilDiv(l.WindowMicros<<g.shift, l.Units)
		if interval < precision {
			continue
		}
		if hi, tolerance := bits.Mul64(uint64(interval), uint64(burst)); hi > 0 || tolerance > uint64(g.wrap)<<g.shift/2 {
			break
		}
		return g
	}
	return grids[0]
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }

// lead is how far the state lies ahead of now, in ticks.
func (b *bucket) lead(s State, nowMicros int64) int64 {
	if len(s) != bucketLen || s[bucketMicros] < nowMicros {
		return 0
	}
	ahead := (s[bucketMicros] - nowMicros) & (b.wrap - 1)
	fraction := s[bucketFraction] & (1<<maxShift - 1)
	lead := ahead<<b.shift + fraction>>(maxShift-b.shift)
	if lead > b.wrap<<b.shift/2 {
		return 0
	}
	return lead
}

// ceilMicros turns ticks into microseconds.
func (b *bucket) ceilMicros(ticks int64) int64 {
	return (ticks + 1<<b.shift - 1) >> b.shift
}

// check decides cost, without charging it.
func (b *bucket) check(s State, nowMicros, cost int64) Decision {
	lead := b.lead(s, nowMicros)
	d := Decision{
		Remaining:        max(b.tolerance-lead, 0) / b.interval,
		ResetAfterMicros: b.ceilMicros(lead),
		RetryAfterMicros: b.retryAfter(lead, cost),
	}
	d.Allowed = d.RetryAfterMicros == 0
	if b.queue && d.Allowed {
		d.DelayMicros = d.ResetAfterMicros
	}
	return d
}

func (b *bucket) retryAfter(lead, cost int64) int64 {
	if cost > b.capacity {
		return Never
	}
	over := lead + cost*b.interval - b.tolerance
	if b.queue {
		over = max(over, lead-b.maxDelay<<b.shift)
	}
	return max(b.ceilMicros(over), 0)
}

// charge takes cost, which check has allowed, and brings d up to date.
func (b *bucket) charge(s State, nowMicros, cost int64, d *Decision) State {
	lead := b.lead(s, nowMicros) + cost*b.interval
	d.Remaining = (b.tolerance - lead) / b.interval
	d.ResetAfterMicros = b.ceilMicros(lead)
	return b.store(s, nowMicros, lead)
}

func (b *bucket) store(s State, nowMicros, lead int64) State {
	fraction := lead & (1<<b.shift - 1)
	return append(s[:0], nowMicros+lead>>b.shift, fraction<<(maxShift-b.shift))
}

// refund gives cost back. After a whole tolerance time itself has done so.
func (b *bucket) refund(s State, chargedAtMicros, nowMicros, cost int64) State {
	lead := b.lead(s, nowMicros)
	switch {
	case lead == 0 || b.drained(chargedAtMicros, nowMicros):
		return s
	case cost >= ceilDiv(lead, b.interval):
		return s[:0]
	}
	return b.store(s, nowMicros, lead-cost*b.interval)
}

// drained says whether what was charged has been restored by time alone.
func (b *bucket) drained(chargedAtMicros, nowMicros int64) bool {
	return nowMicros-chargedAtMicros >= b.ceilMicros(b.tolerance)
}

func bucketExpires(s State) int64 {
	if len(s) != bucketLen {
		return 0
	}
	if s[bucketFraction] > 0 {
		return s[bucketMicros] + 1
	}
	return s[bucketMicros]
}

// args are the constants of the scripts, interval and tolerance, in microseconds.
// The scripts know the wrap by these two: an argument costs Redis more than a
// comparison.
func (b *bucket) args() []string {
	return []string{b.decimal(b.interval), b.decimal(b.tolerance)}
}

// decimal writes ticks as microseconds. A power-of-two fraction has a finite
// decimal expansion, which reads back as the same double.
func (b *bucket) decimal(ticks int64) string {
	return strconv.FormatFloat(float64(ticks)/float64(int64(1)<<b.shift), 'f', -1, 64)
}

// wholeMicros is the time in which cost units are restored, and whether that is a
// whole number of microseconds.
func (b *bucket) wholeMicros(cost int64) (micros int64, whole bool) {
	ticks := cost * b.interval
	return ticks >> b.shift, ticks&(1<<b.shift-1) == 0
}
