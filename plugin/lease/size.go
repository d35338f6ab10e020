package lease

import (
	"math"

	"github.com/sluiceproxy/sluice/algo"
)

// Where the configuration names no units, batches sharpen: they follow the worker's own
// rate, and shrink with what the limit has left, down to exact calls near its end.
const (
	// shareOfRemaining bounds a batch to this part of what remains, so that no worker
	// takes what the others would admit.
	//
	// Bound: part of what remains that one batch has, as a divisor. Beyond it, the batch is
	// smaller. Protects the other workers' requests.
	shareOfRemaining = 16
	// exactBelow is the part of the capacity below which every request asks Redis.
	//
	// Bound: part of the capacity that remains, as a divisor. Below it, every request asks Redis.
	// Protects the limit's last units.
	exactBelow = 20
	// holders is how many batches of equal size may be held of one bucket at a time
	// without admitting more than it does: those of 100 workers that have up to a quarter
	// of a batch left when the next one comes.
	//
	// Bound: batches held of one bucket. Beyond it, the bucket may drain below what is held. Protects
	// the limit.
	holders = 128
	// paddingOfRemaining bounds what a bucket's lease may cost beyond its units. An
	// identity that meets its limit soon loses that much: 0.2 % for each worker.
	//
	// Bound: part of what remains that padding takes, as a divisor. Beyond it, the batch is smaller.
	// Protects the last units of the limit.
	paddingOfRemaining = 512
)

// Order is a worker's order of units.
type Order struct {
	Units   int64 // to be spent
	Padding int64 // beyond them: what drains from a bucket while they are held
}

// Cost is the cost of the order; 0 for none.
func (o Order) Cost() int64 { return o.Units + o.Padding }

// Wants returns the units to ask Redis for now: none if there is no need.
func (l *Lease) Wants(nowMicros int64) Order {
	if l.asking || l.next.units > 0 || nowMicros < l.coolMicros {
		return Order{}
	}
	o := l.fixed(nowMicros)
	if l.limit.Lease.Units == 0 {
		o = l.sharpened(nowMicros)
	}
	if l.current.units > o.Units/4 && !l.endsSoon(nowMicros) || o.Cost() > l.limit.Capacity() || o.Cost() > algo.MaxCost {
		return Order{}
	}
	return o
}

// Asked says that Redis has been asked for what Wants said.
func (l *Lease) Asked(order Order, nonce, nowMicros int64) {
	l.asking, l.order, l.nonce, l.askedMicros = true, order, nonce, nowMicros
}

// fixed is a batch of as many units as are configured, for an identity that is hot.
func (l *Lease) fixed(nowMicros int64) Order {
	if !l.hot {
		return Order{}
	}
	return Order{Units: l.limit.Lease.Units, Padding: l.padding(nowMicros)}
}

// sharpened is a batch that follows what the worker admits.
func (l *Lease) sharpened(nowMicros int64) Order {
	ttl := l.limit.Lease.TTLMicros
	if nowMicros-l.heardAt >= 2*ttl || l.remaining < l.limit.Capacity()/exactBelow {
		return Order{}
	}
	units := min(l.recent.count(nowMicros, ttl), l.remaining/shareOfRemaining)
	if units < 2 {
		return Order{} // one call for each unit, as without a lease
	}
	if !l.limit.Algorithm.HasBurst() {
		return Order{Units: units}
	}
	if l.isFast() {
		return l.fromFast(units, nowMicros)
	}
	return l.fromBucket(units, nowMicros)
}

// fromBucket is a batch of at most so many units of a bucket. While units are held the
// bucket must not drain below all that are, or it would forget what they still stand
// for. If need be, the batch is padded; where that would cost too much, it is smaller
// and held for a shorter time.
func (l *Lease) fromBucket(units, nowMicros int64) Order {
	ttl, lead, interval := float64(l.limit.Lease.TTLMicros), float64(l.lead(nowMicros)), l.interval()
	padding := int64(math.Ceil((l.allHeld(units)+ttl-lead)/interval)) - units
	if padding <= l.remaining/paddingOfRemaining {
		return Order{Units: units, Padding: max(padding, 0)}
	}
	fits := (lead - ttl/4) / ((holders - 1) * interval)
	if units = min(units, int64(max(fits, 0))); units < 2 {
		return Order{}
	}
	return Order{Units: units}
}

// allHeld is the time in which a bucket drains by so many units for every worker.
func (l *Lease) allHeld(units int64) float64 { return holders * float64(units) * l.interval() }

// interval is the time in which a bucket drains by one unit, us.
func (l *Lease) interval() float64 { return float64(l.limit.WindowMicros) / float64(l.limit.Units) }

// lead is how long the bucket still takes to drain, as far as this worker knows.
func (l *Lease) lead(nowMicros int64) int64 {
	return max(0, l.leadMicros-(nowMicros-l.heardAt))
}

// padding is the charge beyond the batch that keeps the bucket from draining
// below it within the lease's time. In a window units do not drain.
func (l *Lease) padding(nowMicros int64) int64 {
	if !l.limit.Algorithm.HasBurst() {
		return 0
	}
	short := l.limit.Lease.TTLMicros - l.lead(nowMicros)
	if short <= 0 {
		return 0
	}
	return int64(math.Ceil(float64(short)*float64(l.limit.Units)/float64(l.limit.WindowMicros))) + 1
}

// recent counts what a worker has admitted lately: in this period, which is as long as
// a lease's time, and in the one before.
type recent struct {
	now, before int64
	sinceMicros int64
}

// roll begins another period if this one is over.
func (r *recent) roll(nowMicros, ttlMicros int64) {
	switch age := nowMicros - r.sinceMicros; {
	case age >= 2*ttlMicros:
		*r = recent{sinceMicros: nowMicros}
	case age >= ttlMicros:
		*r = recent{before: r.now, sinceMicros: r.sinceMicros + ttlMicros}
	}
}

func (r *recent) add(nowMicros, ttlMicros int64) {
	r.roll(nowMicros, ttlMicros)
	r.now++
}

// count is how much was admitted in the last ttl, if the period before was even.
func (r *recent) count(nowMicros, ttlMicros int64) int64 {
	r.roll(nowMicros, ttlMicros)
	left := float64(ttlMicros-(nowMicros-r.sinceMicros)) / float64(ttlMicros)
	return r.now + int64(float64(r.before)*left)
}

// rate is how many units a microsecond were admitted in that time, or since they are counted.
func (r *recent) rate(nowMicros, ttlMicros int64) float64 {
	over := ttlMicros
	if r.before == 0 {
		over = min(over, max(nowMicros-r.sinceMicros, ttlMicros/16))
	}
	return float64(r.count(nowMicros, ttlMicros)) / float64(over)
}
