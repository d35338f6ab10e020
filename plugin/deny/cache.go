// Package deny remembers rejections, so that a client that keeps trying costs
// Redis next to nothing.
//
// A rejection is valid until its retry_after has passed, and never longer than the
// cache's hold. It covers limits of the same size, the rejected cost, and larger costs
// if their wait is known too. The cache can only reject, never admit. It may reject
// what Redis would admit, if something other than time has changed the state there: a
// refund by another worker, or an operator who deletes keys. The hold bounds how long
// that lasts.
package deny

import (
	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/lru"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// These bound how long anything is remembered: a client that hammers costs each
// worker one call in this time. Where several rules may apply to a request, a
// rejection may be due to a charge that is about to be refunded, because another rule
// rejects its request.
//
// What an operator sets in Redis is in force within a second.
const (
	// Bound: us that a rejection is remembered. Beyond it, Redis is asked again. Protects clients
	// from an old rejection.
	RejectionTTLMicros = 10_000_000
	// Bound: us, where several rules may apply. Beyond it, Redis is asked again. Protects clients:
	// the charge that rejects may be given back.
	SharedTTLMicros = 100_000
	// Bound: us, where operators can change the answer. Beyond it, Redis is asked again. Protects
	// what operators set: it is in force within a second.
	TermsTTLMicros = 900_000
)

// Block says that an identity is blocked, whatever a request costs, and by what.
// LeftMicros is how long the block still lasts; algo.Never if it has no end.
type Block struct {
	By         algo.By
	LeftMicros int64
}

// Entry is the memory of one identity under one limit set.
type Entry struct {
	limits      []remembered // of all limits of the set, none of them charged
	block       Block        // in place of limits
	rejects     bool
	untilMicros int64 // the entry holds before this time
	// AtMicros is when the decisions came, on the caller's clock, and
	// StoreMicros the same moment on the store's.
	AtMicros, StoreMicros int64
}

// remembered is one limit's decision, and what it was asked. All of an entry is one
// piece of memory: the more pieces, the longer a collection stalls the worker.
type remembered struct {
	decision algo.Decision
	cost     int64
	size     size
	room     int64 // of the request's class; 0: the limit has no classes
}

// size distinguishes limits of one limit set, apart from when their windows begin.
type size struct{ units, burst int64 }

// sizeOf is a limit's size for the request.
func sizeOf(d *rule.Demand, i int) size {
	if d.Sizes != nil {
		return size{d.Sizes[i].Units, d.Sizes[i].Burst}
	}
	l := &d.Limits.Limits[i]
	return size{l.Units, l.Burst}
}

// roomOf is that of the request's class; 0 where the limit has none.
func roomOf(l *algo.Limit) int64 {
	if l.Ceiling == 0 {
		return 0
	}
	return l.Room()
}

// limitOf is a limit as it is for the request. It must not be changed: a limit of the configuration's
// size is that of the configuration, so that it takes no memory.
func limitOf(d *rule.Demand, i int) *algo.Limit {
	if d.Sizes == nil {
		return &d.Limits.Limits[i].Limit
	}
	l := d.Limits.Limits[i].Limit
	l.Resize(d.Sizes[i])
	return &l
}

// Cache is one worker's memory of rejections. The zero Cache is one that is off: it remembers
// nothing, and nothing may be kept there.
type Cache struct {
	table lru.Table[rule.LimitSetID, Entry]
}

// New makes a cache of at most size entries, of at least 1. Its seed differs in each worker.
func New(size int, seed uint64) *Cache {
	return &Cache{table: *lru.New[rule.LimitSetID, Entry](size, seed)}
}

// Clear forgets everything: what was remembered may not hold any more.
func (c *Cache) Clear() { c.table.Clear() }

// Find returns the entry of a name under a limit set, or nil. See rule.Demand.Name.
func (c *Cache) Find(set rule.LimitSetID, tag []byte) *Entry { return c.table.Get(set, tag) }

// Blocked is the block of the identity, as the store would tell it, if it still lasts.
func (e *Entry) Blocked(nowMicros int64) (r algo.Ruling, lasts bool) {
	if nowMicros >= e.untilMicros || !e.block.By.Blocks() {
		return r, false
	}
	age := nowMicros - e.AtMicros
	r.AtMicros, r.By, r.LeftMicros = e.StoreMicros+age, e.block.By, e.block.LeftMicros
	if r.LeftMicros != algo.Never {
		r.LeftMicros -= age
	}
	return r, true
}

// RememberBlock keeps that an identity is blocked, for ttlMicros at most.
func (c *Cache) RememberBlock(set rule.LimitSetID, tag []byte, b Block, nowMicros, storeMicros, ttlMicros int64) {
	e, _ := c.table.Put(set, tag)
	e.AtMicros, e.StoreMicros, e.block = nowMicros, storeMicros, b
	e.limits, e.rejects = e.limits[:0], true
	if b.LeftMicros != algo.Never {
		ttlMicros = min(ttlMicros, b.LeftMicros)
	}
	e.untilMicros = nowMicros + ttlMicros
}

// Ruling answers a demand on the limits of a part as the store would: by a block, or by each limit's
// decision, as far as it follows from the entry: the waits have become shorter by the entry's age. known is
// false if Redis has to be asked. Limits of another size are other limits.
func (e *Entry) Ruling(d *rule.Demand, p *rule.Part, nowMicros int64, out []algo.Decision) (r algo.Ruling, known bool) {
	if r, known = e.Blocked(nowMicros); known || nowMicros >= e.untilMicros {
		return r, known
	}
	for n, i := range p.Limits {
		if e.limits[n].size != sizeOf(d, i) {
			return r, false
		}
	}
	age := nowMicros - e.AtMicros
	for n, i := range p.Limits {
		if out[i], known = e.limits[n].decide(d, i, age); !known {
			return r, false
		}
	}
	r.AtMicros, r.Allowed = e.StoreMicros+age, !e.rejects
	return r, true
}

// decide is one limit's decision.
func (was *remembered) decide(demand *rule.Demand, i int, age int64) (d algo.Decision, known bool) {
	cost := demand.Costs[i]
	d = was.decision
	d.ResetAfterMicros = max(0, d.ResetAfterMicros-age)
	exact := demand.Limits.Pays // of this very demand only: one of two lists has to allow it
	switch {
	case exact && cost != was.cost:
		return d, false
	case exact || was.room > 0:
	case d.Hidden: // of a guarantee and its pool the other one decides, see algo.Plan.Resolve
		return d, true
	case d.Allowed:
		return d, d.Remaining >= cost
	}
	l := limitOf(demand, i)
	switch {
	case exact:
		if d.RetryAfterMicros > 0 {
			d.RetryAfterMicros = max(1, d.RetryAfterMicros-age)
		}
		return d, roomOf(l) == was.room
	case d.Hidden:
		return d, true
	case was.room == 0:
		d.RetryAfterMicros, known = l.RetryAfterFor(cost, was.cost, d.RetryAfterMicros)
	default:
		// The request is of a class: a rejection holds for lower ones. How much a class has left of a limit that
		// allowed another one may be unknown, and is hidden then.
		lower := was.room - l.Room()
		left := d.Remaining - lower
		d.Remaining = max(left, 0)
		if d.Allowed {
			d.Hidden = lower != 0 && (lower < 0 || left < cost)
			return d, d.Hidden || left >= cost
		}
		d.RetryAfterMicros, known = l.RetryAfterBelow(lower, cost, was.cost, d.RetryAfterMicros, d.ResetAfterMicros+age)
	}
	if d.RetryAfterMicros != algo.Never {
		d.RetryAfterMicros = max(1, d.RetryAfterMicros-age)
	}
	return d, known
}

// Remember keeps the decisions on the limits of a part, for which nothing was charged, for ttlMicros at
// most. If one of them rejects, the entry does; otherwise it says what to show of this identity when
// another one is rejected.
func (c *Cache) Remember(
	name []byte, d *rule.Demand, p *rule.Part, decisions []algo.Decision, nowMicros, storeMicros, ttlMicros int64,
) {
	e, _ := c.table.Put(d.Limits.ID, name)
	e.limits, e.block = e.limits[:0], Block{}
	wait := int64(0)
	for _, i := range p.Limits {
		said := &decisions[i]
		e.limits = append(e.limits, remembered{*said, d.Costs[i], sizeOf(d, i), roomOf(limitOf(d, i))})
		if !said.Allowed {
			wait = algo.LongerWait(wait, said.RetryAfterMicros)
		}
		if said.EndsMicros > 0 { // nothing is known of a calendar's next window
			ttlMicros = min(ttlMicros, said.EndsMicros-storeMicros)
		}
	}
	if d.Limits.Pays {
		wait = d.Limits.Plan.WaitMicros(decisions)
	}
	if wait != 0 && wait != algo.Never {
		ttlMicros = min(ttlMicros, wait)
	}
	e.rejects, e.AtMicros, e.StoreMicros, e.untilMicros = wait != 0, nowMicros, storeMicros, nowMicros+ttlMicros
}

// Forget drops the entry of a tag whose state was given something back.
func (c *Cache) Forget(set rule.LimitSetID, tag []byte) {
	if e := c.Find(set, tag); e != nil {
		e.untilMicros = 0
	}
}
