// Package deny remembers rejections, so that a client that keeps trying costs
// Redis nothing.
//
// A rejection holds until its retry_after has passed, and for MaxHoldMicros at
// most, for the cost that was rejected and all higher ones. The cache can only
// reject, never admit. It may reject what Redis would admit when the state there
// has been changed other than by time: by another worker's refund, or by an
// operator who deletes keys. MaxHoldMicros bounds for how long.
//
// The cache is bounded: beyond its size the entry that was used least recently
// goes. In steady state nothing is allocated.
package deny

import (
	"bytes"
	"hash/maphash"

	"github.com/sluiceproxy/sluice/algo"
)

// MaxHoldMicros is the longest that a rejection is remembered.
const MaxHoldMicros = 10_000_000

// Entry is what is remembered of one identity of one list of limits.
type Entry struct {
	list        int // which list of limits: the tiers of a rule share their tags
	tag         []byte
	hash        uint64
	cost        int64
	rejects     bool
	untilMicros int64 // the entry holds before this time
	// AtMicros is when the decisions came, on the caller's clock, and
	// StoreMicros the same moment on the store's.
	AtMicros, StoreMicros int64
	// Decisions are those of all limits of the rule, none of them charged.
	Decisions []algo.Decision

	chain      int32 // the next entry of the same bucket
	newer      int32
	older      int32
	registered bool
}

const none = -1

// Cache is one worker's memory of rejections.
type Cache struct {
	entries []Entry
	buckets []int32 // a power of two; heads of chains
	newest  int32
	oldest  int32
	size    int
	seed    maphash.Seed
}

// New makes a cache of at most size entries, of at least 1.
func New(size int) *Cache {
	buckets := 1
	for buckets < size {
		buckets *= 2
	}
	c := &Cache{buckets: make([]int32, buckets), size: size, seed: maphash.MakeSeed()}
	c.Clear()
	return c
}

// Clear forgets everything: what was remembered may not hold any more.
func (c *Cache) Clear() {
	for i := range c.buckets {
		c.buckets[i] = none
	}
	for i := range c.entries {
		c.entries[i].registered = false
	}
	c.entries = c.entries[:0]
	c.newest, c.oldest = none, none
}

// Find is what is remembered of a tag under a list of limits, nil if nothing is.
// It counts as a use.
func (c *Cache) Find(list int, tag []byte) *Entry {
	i := c.find(list, tag, maphash.Bytes(c.seed, tag))
	if i == none {
		return nil
	}
	c.unlink(i)
	c.link(i)
	return &c.entries[i]
}

// Verdict is whether the entry rejects a cost. It is not known when the entry is
// too old, or rejected only a higher cost.
func (e *Entry) Verdict(cost, nowMicros int64) (denied, known bool) {
	if e.rejects {
		denied = nowMicros < e.untilMicros && cost >= e.cost
		return denied, denied
	}
	return false, nowMicros < e.untilMicros
}

// Aged is the entry's decision i as it stands some time later: the waits are
// shorter by that time.
func (e *Entry) Aged(i int, nowMicros int64) algo.Decision {
	d := e.Decisions[i]
	age := nowMicros - e.AtMicros
	d.ResetAfterMicros = max(0, d.ResetAfterMicros-age)
	if d.RetryAfterMicros != algo.Never && !d.Allowed {
		d.RetryAfterMicros = max(1, d.RetryAfterMicros-age)
	}
	return d
}

// Remember keeps the decisions on a cost, which were not charged. If one of them
// rejects, the entry denies from now on; otherwise it says what to show of this
// rule when another one denies.
func (c *Cache) Remember(list int, tag []byte, cost int64, decisions []algo.Decision, nowMicros, storeMicros int64) {
	hash := maphash.Bytes(c.seed, tag)
	i := c.find(list, tag, hash)
	if i == none {
		i = c.place(list, tag, hash)
	}
	c.unlink(i)
	c.link(i)
	e := &c.entries[i]
	e.cost, e.AtMicros, e.StoreMicros = cost, nowMicros, storeMicros
	e.Decisions = append(e.Decisions[:0], decisions...)
	hold := int64(0)
	if hold, e.rejects = wait(decisions); !e.rejects {
		hold = MaxHoldMicros
	}
	e.untilMicros = nowMicros + min(hold, MaxHoldMicros)
}

// wait is for how long the decisions reject the same cost: until the longest
// wait is over, it cannot be admitted.
func wait(decisions []algo.Decision) (micros int64, rejects bool) {
	for i := range decisions {
		switch d := &decisions[i]; {
		case d.Allowed:
		case d.RetryAfterMicros == algo.Never:
			return MaxHoldMicros, true
		default:
			micros, rejects = max(micros, d.RetryAfterMicros), true
		}
	}
	return micros, rejects
}

// Forget drops what is remembered of a tag: its state was given something back.
func (c *Cache) Forget(list int, tag []byte) {
	if e := c.Find(list, tag); e != nil {
		e.untilMicros = 0
	}
}

func (c *Cache) find(list int, tag []byte, hash uint64) int32 {
	for i := c.buckets[c.bucket(hash)]; i != none; i = c.entries[i].chain {
		if e := &c.entries[i]; e.hash == hash && e.list == list && bytes.Equal(e.tag, tag) {
			return i
		}
	}
	return none
}

func (c *Cache) bucket(hash uint64) uint64 { return hash & uint64(len(c.buckets)-1) }

// place finds room for a new tag: a new entry, or the oldest one's.
func (c *Cache) place(list int, tag []byte, hash uint64) int32 {
	var i int32
	if len(c.entries) < c.size {
		i = int32(len(c.entries))
		if len(c.entries) < cap(c.entries) {
			c.entries = c.entries[:i+1] // keeps the memory of before Clear
		} else {
			c.entries = append(c.entries, Entry{})
		}
	} else {
		i = c.oldest
		c.unlink(i)
		c.unchain(i)
	}
	e := &c.entries[i]
	head := &c.buckets[c.bucket(hash)]
	e.list, e.tag = list, append(e.tag[:0], tag...)
	e.hash, e.chain = hash, *head
	*head = i
	return i
}

// unchain takes an entry out of its bucket.
func (c *Cache) unchain(i int32) {
	at := &c.buckets[c.bucket(c.entries[i].hash)]
	for *at != i {
		at = &c.entries[*at].chain
	}
	*at = c.entries[i].chain
}

// unlink takes an entry out of the order of use.
func (c *Cache) unlink(i int32) {
	e := &c.entries[i]
	if !e.registered {
		return
	}
	e.registered = false
	if e.newer == none {
		c.newest = e.older
	} else {
		c.entries[e.newer].older = e.older
	}
	if e.older == none {
		c.oldest = e.newer
	} else {
		c.entries[e.older].newer = e.newer
	}
}

// link makes an entry the one used last.
func (c *Cache) link(i int32) {
	e := &c.entries[i]
	e.newer, e.older, e.registered = none, c.newest, true
	if c.newest == none {
		c.oldest = i
	} else {
		c.entries[c.newest].newer = i
	}
	c.newest = i
}
