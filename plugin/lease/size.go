package lease

import "github.com/sluiceproxy/sluice/algo"

// Where the configuration names no units, batches sharpen: they follow the worker's own
// rate, and shrink with what the limit has left, down to exact calls near its end.
const (
	// leastUnits is the smallest batch: a request asks for one unit by itself.
	//
	// Bound: units of a batch. Below it, each request asks Redis. Protects a bucket, which takes a
	// cost of 1 for that of a request.
	leastUnits = 2
	// shareOfCapacity bounds a bucket's batch to this part of its capacity: until its worker
	// takes the next one, the bucket keeps room for the whole batch, spent or not.
	//
	// Bound: part of a bucket's capacity that one batch has, as a divisor. Beyond it, the batch is
	// smaller. Protects the bucket's rate when a flood begins.
	shareOfCapacity = 64
	// shareOfRemaining bounds a batch to this part of what remains, so that no worker
	// takes what the others would admit.
	//
	// Bound: part of what remains that one batch has, as a divisor. Beyond it, the batch is
	// smaller. Protects the other workers' requests.
	shareOfRemaining = 16
	// Bound: part of the capacity that remains, as a divisor. Below it, every request asks Redis.
	// Protects the limit's last units.
	exactBelow = 20
)

// Wants returns how many units to ask Redis for now: 0 if there is no need.
func (l *Lease) Wants(nowMicros int64) (units int64) {
	if l.asking || l.next.units > 0 || nowMicros < l.coolMicros {
		return 0
	}
	if units = l.limit.Lease.Units; units == 0 {
		units = l.sharpened(nowMicros)
	} else if !l.hot {
		return 0
	}
	if units < leastUnits || units > min(l.limit.Capacity(), algo.MaxCost) {
		return 0
	}
	if l.current.units > units/4 && !l.endsSoon(nowMicros) {
		return 0
	}
	return units
}

// Asked says that Redis has been asked for what Wants said.
func (l *Lease) Asked(units, nonce, nowMicros int64) {
	l.asking, l.order, l.nonce, l.askedMicros = true, units, nonce, nowMicros
	l.over = algo.Over{}
}

// Over is the rest of an earlier batch. Redis is told of it with the next one.
func (l *Lease) Over() algo.Over { return l.over }

// sharpened is a batch that follows what the worker admits.
func (l *Lease) sharpened(nowMicros int64) (units int64) {
	ttl := l.limit.Lease.TTLMicros
	if nowMicros-l.heardAt >= 2*ttl || l.remaining < l.limit.Capacity()/exactBelow {
		return 0
	}
	units = min(l.recent.count(nowMicros, ttl), l.remaining/shareOfRemaining)
	if l.limit.Algorithm.HasBurst() {
		units = min(units, max(l.limit.Capacity()/shareOfCapacity, leastUnits))
	}
	return units
}

// endsSoon reports whether the batch at hand is best followed by another one now, though it is
// not used up: what will be left of it then costs no call.
func (l *Lease) endsSoon(nowMicros int64) bool {
	c := &l.current
	return c.untilMicros-nowMicros < l.limit.Lease.TTLMicros/4 && l.drainsSoon(c.units)
}

// drainsSoon reports whether a bucket drains so many units so soon that giving them back is not
// worth a call.
func (l *Lease) drainsSoon(units int64) bool {
	return l.limit.Algorithm.HasBurst() &&
		units*l.limit.WindowMicros <= l.limit.Lease.TTLMicros/8*l.limit.Units
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
