package lease

import "math"

// A bucket of seconds drains within milliseconds what one batch takes, so a batch of it can only
// be held while the worker keeps the bucket filled, and a refund to it would come too late. So
// nothing of such a batch is given back: what is left when its time is over lapses.
//
// That makes it safe to hold, however many workers do. When Redis decides on a batch, the bucket
// holds it, and on top what drains until the batch's end. Whatever anyone charges later fills the
// bucket by as much. So at any moment the bucket holds the oldest batch in anyone's hands, and each
// one that was charged after that: Redis forgets no unit that is still to be spent. Were units of
// an older batch given back meanwhile, that would not be so. See docs/decisions/0014-leases.md.

// restShare is the part of the capacity up to which the bucket is filled for a batch alone.
//
// Bound: part of the capacity that a bucket of seconds is filled for leases, as a divisor. Beyond
// it, a batch is held for a shorter time. Protects the burst: an identity that meets its limit from
// rest has that much less, once.
const restShare = 24

// fillMicros is how much that is, as the time in which the bucket drains it.
func (l *Lease) fillMicros() float64 { return float64(l.limit.Capacity()) / restShare * l.interval() }

// isFast reports whether this is a bucket of seconds, and its batches sharpen.
func (l *Lease) isFast() bool {
	return l.limit.Lease.Units == 0 && l.limit.Algorithm.HasBurst() && l.fillMicros() <= float64(l.limit.Lease.TTLMicros)
}

// fromFast is a batch of at most so many units of a bucket of seconds: as many as this worker
// spends until the bucket has drained to them. A bucket that holds little is filled first.
func (l *Lease) fromFast(units, nowMicros int64) Order {
	ttl, lead, interval := float64(l.limit.Lease.TTLMicros), float64(l.lead(nowMicros)), l.interval()
	spent := l.recent.rate(nowMicros, l.limit.Lease.TTLMicros)
	lasts := min(ttl, max(lead, l.fillMicros()/(1+spent*interval)))
	padding := int64(math.Ceil((lasts - lead) / interval))
	if padding <= 0 {
		lasts, padding = lasts*3/4, 0 // others miss what lapses of a bucket that is filled
	}
	if units = min(units, int64(spent*lasts)); units < 2 {
		return Order{} // one call for each unit, as without a lease
	}
	return Order{Units: units, Padding: padding}
}

// endsSoon reports whether the batch at hand, of a bucket of seconds, is best followed by another
// one now, though it is not used up.
func (l *Lease) endsSoon(nowMicros int64) bool {
	c := &l.current
	return c.untilMicros-nowMicros < (c.untilMicros-c.atMicros)/8 && l.isFast()
}
