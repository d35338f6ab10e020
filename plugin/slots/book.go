// Package slots keeps a worker's slots of concurrency limits: which requests hold
// slots of which identity, and when to renew them.
//
// A slot that is not renewed for its ttl is free, so that none is lost with an Envoy
// that was killed. A Book therefore visits all its identities within a fifth of the
// ttl, a few random ones at each step, and has those slots renewed that are a twelfth
// of the ttl old. So each is renewed at least every third of its ttl, the identities
// are spread evenly over that time, and short requests cost nothing. No step renews
// more than a Portion, so that an identity with very many slots takes several.
package slots

import (
	"github.com/sluiceproxy/sluice/plugin/keyhash"
	"github.com/sluiceproxy/sluice/plugin/must"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// Slot is one request's units of a concurrency limit. The zero Slot has none.
type Slot struct {
	Nonce int64 // of the call that took it
	Slots int64
	// Further says that the request has a slot of another limit, by which it is counted.
	Further bool

	of          *Identity
	index       int    // in of.slots
	freshMicros int64  // when it was taken, or renewed last
	hurry       uint32 // the Book's, then
}

// Held reports whether the slot is in a Book.
func (s *Slot) Held() bool { return s.of != nil }

// Identity is everything that a worker holds of one identity, in one of the two stores.
type Identity struct {
	Set      rule.LimitSetID // of limits
	Tag      []byte          // or a part's name, see rule.Demand.Name
	Embedded bool            // held in the embedded store, not in Redis
	Slots    int64

	slots []*Slot
	hash  uint64
	chain *Identity // the next one of the same bucket
	index int       // in its place on the wheel
}

// Renewer renews slots.
type Renewer interface {
	// RenewSlots renews those slots of an identity that are due. The list is good
	// during the call.
	RenewSlots(id *Identity, due []*Slot)
}

// Book has the slots of one worker.
type Book struct {
	wheels  []*wheel // by limit set; nil: it has no slots
	counts  []int64  // by limit set: requests that hold slots
	buckets []*Identity
	size    int
	key     keyhash.Key
	idle    []*Identity // to use again
	due     []*Slot     // scratch

	hurry        uint32 // counts the hurries: what was renewed before the last may be lost
	left         int    // scratch: of a portion
	first        int    // the wheel to look at first
	resumeMicros int64  // not before this time
}

// New makes a Book for limit sets whose slots live that long; 0: it has no slots. The
// seed, different in each worker, spreads the renewals over time.
func New(ttlMicros []int64, seed uint64) *Book {
	b := &Book{buckets: make([]*Identity, 16), key: keyhash.New(seed), counts: make([]int64, len(ttlMicros))}
	for _, ttl := range ttlMicros {
		var w *wheel
		if ttl > 0 {
			w = &wheel{stepMicros: ttl / 5 / places, oldMicros: ttl / 12}
		}
		b.wheels = append(b.wheels, w)
	}
	return b
}

// Occupy notes what a request occupies. The Slot must stay where it is until Vacate.
func (b *Book) Occupy(s *Slot, set rule.LimitSetID, tag []byte, embedded bool, nowMicros int64) {
	must.Hold(!s.Held() && s.Slots > 0, "slots are occupied once, and some")
	hash := b.key.Sum(tag)
	id := b.find(set, tag, embedded, hash)
	if id == nil {
		if b.size == len(b.buckets) {
			old := b.buckets
			b.buckets = make([]*Identity, 2*len(old))
			for _, id := range old {
				for id != nil {
					next, head := id.chain, b.bucket(id.hash)
					id.chain, *head = *head, id
					id = next
				}
			}
		}
		if n := len(b.idle); n > 0 {
			id, b.idle = b.idle[n-1], b.idle[:n-1]
		} else {
			id = &Identity{}
		}
		id.Set, id.Embedded, id.hash = set, embedded, hash
		id.Tag = append(id.Tag[:0], tag...)
		head := b.bucket(hash)
		id.chain, *head = *head, id
		b.size++
		w := b.wheels[set]
		if w.count == 0 {
			w.dueMicros = nowMicros + w.stepMicros
		}
		w.count++
		place := w.placeOf(id)
		id.index = len(*place)
		*place = append(*place, id)
	}
	s.of, s.index, s.freshMicros, s.hurry = id, len(id.slots), nowMicros, b.hurry
	id.slots = append(id.slots, s)
	id.Slots += s.Slots
	b.counts[set] += s.requests()
}

// requests is how many requests the slot makes known: each is counted once.
func (s *Slot) requests() int64 {
	if s.Further {
		return 0
	}
	return 1
}

// Bound: identities kept for the next ones. Beyond it, an identity's memory is freed. Protects
// memory after a burst.
const maxIdleIdentities = 256

// Vacate notes that a request's slot is free. It returns the identity, which is valid until
// the next Occupy.
func (b *Book) Vacate(s *Slot) *Identity {
	must.Hold(s.Held() && s.of.slots[s.index] == s, "a slot that is vacated is occupied, and where it was")
	id := s.of
	last := len(id.slots) - 1
	moved := id.slots[last]
	id.slots[s.index], moved.index = moved, s.index
	id.slots[last] = nil
	id.slots = id.slots[:last]
	id.Slots -= s.Slots
	b.counts[id.Set] -= s.requests()
	must.Hold(id.Slots >= 0 && b.counts[id.Set] >= 0, "no more slots are vacated than are occupied")
	*s = Slot{}
	if last == 0 {
		at := b.bucket(id.hash)
		for *at != id {
			at = &(*at).chain
		}
		*at, id.chain = id.chain, nil
		b.size--
		w := b.wheels[id.Set]
		w.count--
		place := w.placeOf(id)
		last := len(*place) - 1
		moved := (*place)[last]
		(*place)[id.index], moved.index = moved, id.index
		(*place)[last] = nil
		*place = (*place)[:last]
		if len(b.idle) < maxIdleIdentities {
			b.idle = append(b.idle, id)
		}
	}
	return id
}

// Held is how many slots of an identity the worker holds in a store.
func (b *Book) Held(set rule.LimitSetID, tag []byte, embedded bool) int64 {
	if id := b.find(set, tag, embedded, b.key.Sum(tag)); id != nil {
		return id.Slots
	}
	return 0
}

// InFlight is how many requests hold slots of a limit set.
func (b *Book) InFlight(set rule.LimitSetID) int64 { return b.counts[set] }

func (b *Book) bucket(hash uint64) **Identity { return &b.buckets[hash&uint64(len(b.buckets)-1)] }

func (b *Book) find(set rule.LimitSetID, tag []byte, embedded bool, hash uint64) *Identity {
	for id := *b.bucket(hash); id != nil; id = id.chain {
		if id.hash == hash && id.Set == set && id.Embedded == embedded && string(id.Tag) == string(tag) {
			return id
		}
	}
	return nil
}
