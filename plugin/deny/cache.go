// Package deny remembers rejections, so that a client that keeps trying costs
// Redis nothing.
//
// A rejection holds until its retry_after has passed, and for MaxHoldMicros at
// most, for the cost that was rejected and all higher ones. The cache can only
// reject, never admit. It may reject what Redis would admit when the state there
// has been changed other than by time: by another worker's refund, or by an
// operator who deletes keys. MaxHoldMicros bounds for how long.
package deny

import (
	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/lru"
)

// MaxHoldMicros is the longest that anything is remembered.
const MaxHoldMicros = 10_000_000

// Entry is what is remembered of one identity of one list of limits.
type Entry struct {
	cost        int64
	rejects     bool
	untilMicros int64 // the entry holds before this time
	// AtMicros is when the decisions came, on the caller's clock, and
	// StoreMicros the same moment on the store's.
	AtMicros, StoreMicros int64
	// Decisions are those of all limits of the list, none of them charged.
	Decisions []algo.Decision
}

// Cache is one worker's memory of rejections.
type Cache struct{ table *lru.Table[Entry] }

// New makes a cache of at most size entries, of at least 1.
func New(size int) *Cache { return &Cache{lru.New[Entry](size)} }

// Clear forgets everything: what was remembered may not hold any more.
func (c *Cache) Clear() { c.table.Clear() }

// Find is what is remembered of a tag under a list of limits, nil if nothing is.
func (c *Cache) Find(list int, tag []byte) *Entry { return c.table.Get(list, tag) }

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
	e, _ := c.table.Put(list, tag)
	e.cost, e.AtMicros, e.StoreMicros = cost, nowMicros, storeMicros
	e.Decisions = append(e.Decisions[:0], decisions...)
	hold := int64(MaxHoldMicros)
	if wait, rejects := longestWait(decisions); rejects {
		e.rejects, hold = true, min(hold, wait)
	} else {
		e.rejects = false
	}
	e.untilMicros = nowMicros + hold
}

// longestWait is for how long the decisions reject the same cost: before the
// longest of their waits is over, it cannot be admitted.
func longestWait(decisions []algo.Decision) (micros int64, rejects bool) {
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
