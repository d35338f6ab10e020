// Package lease lets a worker take a batch of units of a hot identity in one call
// and spend them itself.
//
// Every unit is charged in Redis before it is spent, so that never more is admitted
// than was charged. Units that were not spent are given back when the lease's time is
// over. A lease shifts time: a unit may be spent later than it was charged. A fixed window's
// lease therefore ends with the window. A bucket does not drain below the units that may be
// held (algo.Limit.LeaseMicros), so a worker says with each batch what is over of the last one.
// At any moment a worker holds at most two batches of an identity unspent.
//
// The size of a batch is configured, or follows the worker's own rate.
package lease

import (
	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/lru"
	"github.com/sluiceproxy/sluice/plugin/must"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// Bound: identities whose leases a worker follows. Beyond it, the one unused for longest gives its units
// back. Protects memory.
const maxLeases = 4096

// batch is the charge of one call.
type batch struct {
	size        int64 // units that were charged
	units       int64 // of them not spent yet
	untilMicros int64 // spent before this time, or given back
	charge      Charge
	decision    algo.Decision // of the call
	atMicros    int64         // when it came, on the worker's clock
}

// Charge identifies a batch in Redis.
type Charge struct {
	Nonce       int64
	StoreMicros int64 // when it was charged, on Redis' clock
}

// Lease has the units of one identity that a worker holds.
type Lease struct {
	Tag   []byte
	Set   rule.LimitSetID
	limit *config.Limit

	current, next batch
	asking        bool
	evicted       bool      // from the table: what is still to come is given back
	over          algo.Over // of the last batch that has ended, unless Redis was told
	order         int64     // units that are being asked for
	askedMicros   int64     // when that was
	nonce         int64

	heat       int64 // requests since periodMicros
	hot        bool  // the last period, or this one, was
	period     int64 // when this period began
	coolMicros int64 // no batch is asked for before this time
	remaining  int64 // what the limit has left, when it was last heard of
	heardAt    int64
	recent     recent
}

// Returner gives units back in Redis. lent says that Redis still counts them as lent: it was not told
// that they are over.
type Returner interface {
	ReturnUnits(l *Lease, charge Charge, units int64, lent bool, nowMicros int64)
}

// Book holds the leases of one worker.
type Book struct {
	table    *lru.Table[rule.LimitSetID, *Lease]
	returner Returner
	active   []*Lease // that hold units
	due      int64    // when the first of them has to give back; 0 if there are none
	closed   bool     // the configuration ends: what is still to come is given back
}

// NewBook makes an empty Book. Its seed differs in each worker.
func NewBook(r Returner, seed uint64) *Book {
	return &Book{table: lru.New[rule.LimitSetID, *Lease](maxLeases, seed), returner: r}
}

// Of is the lease of an identity. It counts one request. An identity is hot if it makes at least half a
// batch of requests within one lease's ttl.
func (b *Book) Of(set rule.LimitSetID, tag []byte, limit *config.Limit, nowMicros int64) *Lease {
	known, fresh := b.table.Put(set, tag)
	if fresh {
		if evicted := *known; evicted != nil { // all that it holds is given back, and what it is being given
			evicted.evicted = true
			b.giveBack(evicted, &evicted.current, nowMicros)
			b.giveBack(evicted, &evicted.next, nowMicros)
		}
		*known = &Lease{Tag: append([]byte(nil), tag...), Set: set, limit: limit, period: nowMicros}
	}
	l := *known
	enough := max(2, l.limit.Lease.Units/2)
	if age := nowMicros - l.period; age >= l.limit.Lease.TTLMicros {
		l.hot = l.heat >= enough && age < 2*l.limit.Lease.TTLMicros
		l.period, l.heat = nowMicros, 0
	}
	l.heat++
	if l.heat >= enough {
		l.hot = true
	}
	return l
}

// Spend takes one unit, if the lease has one. It decides as Redis would, as far as this worker
// knows.
func (b *Book) Spend(l *Lease, nowMicros int64) (d algo.Decision, charge Charge, ok bool) {
	if l.current.units == 0 || nowMicros >= l.current.untilMicros {
		b.lapse(l, &l.current, nowMicros)
		l.begin(l.next, nowMicros)
		l.next = batch{}
		if l.current.units == 0 || nowMicros >= l.current.untilMicros {
			b.lapse(l, &l.current, nowMicros)
			return d, Charge{}, false
		}
	}
	c := &l.current
	c.units--
	must.Hold(c.units >= 0 && !l.evicted, "a lease spends what it holds")
	l.recent.add(nowMicros, l.limit.Lease.TTLMicros)
	age := nowMicros - c.atMicros
	reset := max(1, c.decision.ResetAfterMicros-age)
	d = algo.Decision{
		Allowed:           true,
		Remaining:         c.decision.Remaining + c.units + l.next.units,
		ResetAfterMicros:  reset,
		ResetBeforeMicros: reset, // the unit stays charged until its lease ends
		BeginsMicros:      c.decision.BeginsMicros,
		EndsMicros:        c.decision.EndsMicros,
	}
	return d, c.charge, true
}

// Unspend takes a unit back that was spent for a request which is rejected.
func (b *Book) Unspend(l *Lease, charge Charge, nowMicros int64) {
	if l.current.charge == charge && l.current.units > 0 {
		l.current.units++
		return
	}
	lent := true
	switch { // it is taken off what is lent once: now, not with the rest of its batch
	case l.current.charge == charge:
		l.current.size--
	case l.over.Units > 0 && l.over.ChargedMicros == charge.StoreMicros:
		l.over.Units--
	default:
		lent = false
	}
	b.returner.ReturnUnits(l, charge, 1, lent, nowMicros)
}

// Heard keeps what Redis said of a request of the identity.
func (l *Lease) Heard(d *algo.Decision, nowMicros int64) {
	if d.Allowed {
		l.recent.add(nowMicros, l.limit.Lease.TTLMicros)
	}
	l.remaining, l.heardAt = d.Remaining, nowMicros
}

// Granted takes Redis' answer to what was asked for.
func (b *Book) Granted(l *Lease, d *algo.Decision, allowed bool, storeMicros, nowMicros int64) {
	l.asking = false
	l.remaining, l.heardAt = d.Remaining, nowMicros
	if !allowed {
		l.coolMicros = nowMicros + l.limit.Lease.TTLMicros
		return
	}
	// A batch may be held to its window's end, and as long as a bucket counts it as lent, a ttl after another
	// one that is spent before. It counts from when Redis decided. A worker does not know when that was, but
	// that it was not before it had asked.
	lasts := 2 * l.limit.Lease.TTLMicros
	if l.limit.Algorithm.HasBurst() {
		must.Hold(l.limit.LeaseMicros >= lasts, "a bucket counts a batch as lent while it is held")
	} else {
		lasts = min(lasts, d.ResetAfterMicros)
	}
	got := batch{
		size: l.order, units: l.order, untilMicros: l.askedMicros + lasts,
		charge: Charge{l.nonce, storeMicros}, decision: *d, atMicros: nowMicros,
	}
	if l.evicted || b.closed {
		b.giveBack(l, &got, nowMicros)
		return
	}
	if l.current.units == 0 && l.next.units == 0 {
		b.active = append(b.active, l)
	}
	if l.current.units == 0 {
		l.begin(got, nowMicros)
	} else {
		must.Hold(l.next.units == 0, "a lease holds two batches at most")
		l.next = got
	}
	b.dueBy(min(got.untilMicros, nowMicros+l.limit.Lease.TTLMicros))
}

// begin makes a batch the one that is spent, for a ttl at most.
func (l *Lease) begin(b batch, nowMicros int64) {
	l.current = b
	l.current.untilMicros = min(b.untilMicros, nowMicros+l.limit.Lease.TTLMicros)
}

// Failed says that Redis did not answer.
func (l *Lease) Failed(nowMicros int64) {
	l.asking = false
	l.coolMicros = nowMicros + l.limit.Lease.TTLMicros
}

// giveBack returns what is left of a batch.
func (b *Book) giveBack(l *Lease, held *batch, nowMicros int64) {
	if held.units > 0 {
		b.returner.ReturnUnits(l, held.charge, held.units, true, nowMicros)
	}
	if held.size > held.units {
		l.over = algo.Over{Units: held.size - held.units, ChargedMicros: held.charge.StoreMicros}
	}
	*held = batch{}
}

// lapse ends a batch whose time is over. What is left of it is given back if that is worth a call.
func (b *Book) lapse(l *Lease, held *batch, nowMicros int64) {
	if l.drainsSoon(held.units) {
		held.units = 0
	}
	b.giveBack(l, held, nowMicros)
}

// NextMicros is the time until units have to be given back, at least 1; 0 if no
// units are held.
func (b *Book) NextMicros(nowMicros int64) int64 {
	if b.due == 0 {
		return 0
	}
	return max(1, b.due-nowMicros)
}

func (b *Book) dueBy(untilMicros int64) {
	if b.due == 0 || untilMicros < b.due {
		b.due = untilMicros
	}
}

// Expire gives back the units whose time is over.
func (b *Book) Expire(nowMicros int64) {
	if b.due == 0 || nowMicros < b.due {
		return
	}
	b.due = 0
	kept := b.active[:0]
	for _, l := range b.active {
		b.expire(l, &l.current, nowMicros)
		b.expire(l, &l.next, nowMicros)
		if l.current.units > 0 || l.next.units > 0 {
			kept = append(kept, l)
		}
	}
	clear(b.active[len(kept):])
	b.active = kept
}

func (b *Book) expire(l *Lease, held *batch, nowMicros int64) {
	switch {
	case held.units == 0:
	case nowMicros >= held.untilMicros:
		b.lapse(l, held, nowMicros)
	default:
		b.dueBy(held.untilMicros)
	}
}

// ReturnAll gives back what all leases hold. Their identities go on asking Redis, and
// take units anew.
func (b *Book) ReturnAll(nowMicros int64) {
	for _, l := range b.active {
		b.giveBack(l, &l.current, nowMicros)
		b.giveBack(l, &l.next, nowMicros)
	}
	clear(b.active)
	b.active, b.due = b.active[:0], 0
}

// Close gives back what all leases hold, and what they are still being given.
func (b *Book) Close(nowMicros int64) {
	must.Hold(!b.closed, "a configuration ends once")
	b.ReturnAll(nowMicros)
	b.closed = true
}

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
		// It follows what was admitted in the last ttl, if the period before was even.
		ttl, r := l.limit.Lease.TTLMicros, &l.recent
		if nowMicros-l.heardAt >= 2*ttl || l.remaining < l.limit.Capacity()/exactBelow {
			return 0
		}
		r.roll(nowMicros, ttl)
		left := float64(ttl-(nowMicros-r.sinceMicros)) / float64(ttl)
		units = min(r.now+int64(float64(r.before)*left), l.remaining/shareOfRemaining)
		if l.limit.Algorithm.HasBurst() {
			units = min(units, max(l.limit.Capacity()/shareOfCapacity, leastUnits))
		}
	} else if !l.hot {
		return 0
	}
	if units < leastUnits || units > min(l.limit.Capacity(), algo.MaxCost) {
		return 0
	}
	// A batch at hand is best followed by another one now, though it is not used up, if what will be left
	// of it costs no call.
	endsSoon := l.current.untilMicros-nowMicros < l.limit.Lease.TTLMicros/4 && l.drainsSoon(l.current.units)
	if l.current.units > units/4 && !endsSoon {
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

// drainsSoon reports whether a bucket drains so many units so soon that giving them back is not
// worth a call.
func (l *Lease) drainsSoon(units int64) bool {
	return l.limit.LeaseMicros > 0 && units*l.limit.WindowMicros <= l.limit.Lease.TTLMicros/8*l.limit.Units
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
