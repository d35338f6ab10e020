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
	"slices"

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

// Asked is a request's demand: a cost of each limit.
type Asked struct {
	Limits []algo.Limit
	Sizes  []algo.Size // that the limits have for it; nil: as configured
	Costs  []int64
	// Own is how many of the limits, the first ones, are the rule's own: the others may pay for them.
	// 0: all.
	Own int
}

// exactly reports whether a rejection is of this very demand only: one of two lists has to allow it.
func (a *Asked) exactly() bool { return a.Own > 0 && a.Own < len(a.Limits) }

// waitMicros is until when the demand is rejected; 0 if it is not.
func (a *Asked) waitMicros(decisions []algo.Decision) int64 {
	if !a.exactly() {
		return algo.LongestWait(decisions)
	}
	return algo.WaitOfLists(decisions[:a.Own], decisions[a.Own:])
}

// size is a limit's size for the request.
func (a *Asked) size(i int) size {
	if a.Sizes != nil {
		return size{a.Sizes[i].Units, a.Sizes[i].Burst}
	}
	return size{a.Limits[i].Units, a.Limits[i].Burst}
}

// room is that of the request's class; 0 where the limit has none.
func (a *Asked) room(i int) int64 {
	if a.Limits[i].Ceiling == 0 {
		return 0
	}
	return a.limit(i).Room()
}

// limit is a limit as it is for the request. It must not be changed: a limit of the configuration's
// size is that of the configuration, so that it takes no memory.
func (a *Asked) limit(i int) *algo.Limit {
	if a.Sizes == nil {
		return &a.Limits[i]
	}
	l := a.Limits[i]
	l.Resize(a.Sizes[i])
	return &l
}

// Cache is one worker's memory of rejections. The zero Cache is one that is off: it remembers
// nothing, and nothing may be kept there.
type Cache struct {
	table lru.Table[rule.LimitSetID, Entry]
}

// New makes a cache of at most size entries, of at least 1. Its seed differs in each worker.
func New(size int, seed uint64) *Cache { return &Cache{*lru.New[rule.LimitSetID, Entry](size, seed)} }

// Clear forgets everything: what was remembered may not hold any more.
func (c *Cache) Clear() { c.table.Clear() }

// Find returns the entry of a tag under a limit set, or nil.
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

// Ruling answers a request as the store would: by a block, or by each limit's decision.
// known is false if Redis has to be asked.
func (e *Entry) Ruling(asked Asked, nowMicros int64, out []algo.Decision) (r algo.Ruling, known bool) {
	if r, blocked := e.Blocked(nowMicros); blocked {
		return r, true
	}
	r.AtMicros = e.StoreMicros + nowMicros - e.AtMicros
	rejects, known := e.Decide(asked, nowMicros, out)
	r.Allowed = !rejects
	return r, known
}

// Decide fills in each limit's decision about a request, as far as it follows from the entry:
// the waits have become shorter by the entry's age. known is false if Redis has to be asked.
// Limits of another size are other limits.
func (e *Entry) Decide(asked Asked, nowMicros int64, out []algo.Decision) (rejects, known bool) {
	if nowMicros >= e.untilMicros || e.block.By.Blocks() || !e.sameSizes(&asked) {
		return false, false
	}
	age := nowMicros - e.AtMicros
	for i := range out {
		if out[i], known = e.decide(i, &asked, age); !known {
			return false, false
		}
	}
	return e.rejects, true
}

// decide is one limit's decision.
func (e *Entry) decide(i int, asked *Asked, age int64) (d algo.Decision, known bool) {
	was, cost := &e.limits[i], asked.Costs[i]
	d = was.decision
	d.ResetAfterMicros = max(0, d.ResetAfterMicros-age)
	if asked.exactly() {
		if cost != was.cost || asked.room(i) != was.room {
			return d, false
		}
		if d.RetryAfterMicros > 0 {
			d.RetryAfterMicros = max(1, d.RetryAfterMicros-age)
		}
		return d, true
	}
	if d.Hidden { // of a guarantee and its pool the other one decides, see algo.Plan.Resolve
		return d, true
	}
	if was.room > 0 {
		return was.decideClass(d, cost, asked.limit(i), age)
	}
	if d.Allowed {
		return d, d.Remaining >= cost
	}
	d.RetryAfterMicros, known = asked.limit(i).RetryAfterFor(cost, was.cost, d.RetryAfterMicros)
	if d.RetryAfterMicros != algo.Never {
		d.RetryAfterMicros = max(1, d.RetryAfterMicros-age)
	}
	return d, known
}

// decideClass is one limit's decision, d, about a request of a class: a rejection holds for lower
// ones. How much a class has left of a limit that allowed another one may be unknown, and is hidden
// then.
func (was *remembered) decideClass(
	d algo.Decision, cost int64, l *algo.Limit, age int64,
) (_ algo.Decision, known bool) {
	lower := was.room - l.Room()
	left := d.Remaining - lower
	if d.Allowed {
		d.Hidden = lower != 0 && (lower < 0 || left < cost)
		d.Remaining = max(left, 0)
		return d, d.Hidden || left >= cost
	}
	d.Remaining = max(left, 0)
	d.RetryAfterMicros, known = l.RetryAfterBelow(lower, cost, was.cost, d.RetryAfterMicros, d.ResetAfterMicros+age)
	if d.RetryAfterMicros != algo.Never {
		d.RetryAfterMicros = max(1, d.RetryAfterMicros-age)
	}
	return d, known
}

// sameSizes reports whether the limits have the size that the decisions were made with.
func (e *Entry) sameSizes(asked *Asked) bool {
	for i := range asked.Limits {
		if e.limits[i].size != asked.size(i) {
			return false
		}
	}
	return true
}

// Remember keeps the decisions on a request, for which nothing was charged, for
// ttlMicros at most. If one of them rejects, the entry does; otherwise it says what
// to show of this identity when another one is rejected.
func (c *Cache) Remember(
	set rule.LimitSetID, tag []byte, asked Asked, decisions []algo.Decision, nowMicros, storeMicros, ttlMicros int64,
) {
	e, _ := c.table.Put(set, tag)
	e.AtMicros, e.StoreMicros, e.block = nowMicros, storeMicros, Block{}
	e.limits = slices.Grow(e.limits[:0], len(decisions))
	for i := range decisions {
		e.limits = append(e.limits, remembered{decisions[i], asked.Costs[i], asked.size(i), asked.room(i)})
	}
	wait := asked.waitMicros(decisions)
	if e.rejects = wait != 0; e.rejects && wait != algo.Never {
		ttlMicros = min(ttlMicros, wait)
	}
	for i := range decisions {
		if ends := decisions[i].EndsMicros; ends > 0 { // nothing is known of a calendar's next window
			ttlMicros = min(ttlMicros, ends-storeMicros)
		}
	}
	e.untilMicros = nowMicros + ttlMicros
}

// Forget drops the entry of a tag whose state was given something back.
func (c *Cache) Forget(set rule.LimitSetID, tag []byte) {
	if e := c.Find(set, tag); e != nil {
		e.untilMicros = 0
	}
}
