package algo

// newWaitBucket prepares the arithmetic of a limit whose burst goes at once while what is over it
// waits for its place: the burst, and what returns within the longest wait, is its tolerance.
func newWaitBucket(l *Limit) bucket {
	b := newBucket(l)
	b.maxDelay = min(b.maxDelay, maxPatience>>b.shift)
	if b.capacity == 0 {
		b.maxDelay = 0
	}
	b.tolerance += b.maxDelay << b.shift
	return b
}

// maxPatience bounds a wait in ticks, so that it and a tolerance add up exactly in a double. It is
// two seconds of the finest ticks, which limits of more than 10^9 units a second have; of the
// others it is half an hour.
//
// Bound: ticks that a burst's queue holds a request. Beyond it, the request is refused. Protects
// exact doubles.
const maxPatience = 1 << 51

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
