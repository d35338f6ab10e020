// Package lru is a table of bounded size in which a worker keeps what it knows
// of identities: beyond its size the one that was used least recently goes. In
// steady state nothing is allocated.
package lru

import (
	"github.com/sluiceproxy/sluice/plugin/keyhash"
	"github.com/sluiceproxy/sluice/plugin/text"
)

// Table maps an identity (a tag of a rule, or of a limit set) to a V. The tiers of a
// rule share their tags, so a tag alone does not identify an entry. The zero Table is one that is
// off: it holds nothing, and nothing may be Put there.
type Table[K ~int, V any] struct {
	chunks  [][]entry[K, V] // all but the last are full
	used    int32           // entries in use
	buckets []int32         // a power of two; heads of chains
	newest  int32
	oldest  int32
	size    int
	key     keyhash.Key
}

type entry[K ~int, V any] struct {
	of    K
	tag   []byte
	hash  uint64
	value V

	chain int32 // the next entry of the same bucket
	newer int32
	older int32
}

const none = -1

// chunkLen is how many entries are allocated at once. Chunks stay where they are: a
// slice that doubles would be copied, and stall its worker, the longer the larger
// the table.
const (
	chunkShift = 8
	chunkLen   = 1 << chunkShift
)

// at is an entry that is in use. It stays where it is.
//
//go:inline
func (t *Table[K, V]) at(i int32) *entry[K, V] { return &t.chunks[i>>chunkShift][i&(chunkLen-1)] }

// New makes a table of at most size entries, of at least 1. Its seed differs in each worker.
func New[K ~int, V any](size int, seed uint64) *Table[K, V] {
	buckets := 1
	for buckets < size {
		buckets *= 2
	}
	t := &Table[K, V]{buckets: make([]int32, buckets), size: size, key: keyhash.New(seed)}
	t.Clear()
	return t
}

// Clear forgets everything, but keeps the memory.
func (t *Table[K, V]) Clear() {
	for i := range t.buckets {
		t.buckets[i] = none
	}
	t.used = 0
	t.newest, t.oldest = none, none
}

// Get is the value of an identity, nil if it has none. It counts as a use. The
// pointer is good until another identity takes its place.
func (t *Table[K, V]) Get(of K, tag []byte) *V {
	if t.used == 0 {
		return nil
	}
	i := t.find(of, tag, t.key.Sum(tag))
	if i == none {
		return nil
	}
	t.unlink(i)
	t.link(i)
	return &t.at(i).value
}

// Oldest is the value of the identity that was used least recently. It counts as a use: the next
// call has another one. The Table must hold something.
func (t *Table[K, V]) Oldest() *V {
	i := t.oldest
	t.unlink(i)
	t.link(i)
	return &t.at(i).value
}

// Put is the value of an identity, which gets one if it has none: fresh is true
// then, and the value is one that another identity left behind, or zero.
func (t *Table[K, V]) Put(of K, tag []byte) (value *V, fresh bool) {
	hash := t.key.Sum(tag)
	i := t.find(of, tag, hash)
	if fresh = i == none; fresh {
		if i = t.used; int(i) == t.size { // the oldest one leaves its place
			i = t.oldest
			t.unlink(i)
			at := t.bucket(t.at(i).hash) // it leaves its bucket, too
			for *at != i {
				at = &t.at(*at).chain
			}
			*at = t.at(i).chain
		} else {
			t.used++
			if int(i>>chunkShift) == len(t.chunks) { // else there is memory from before Clear
				t.chunks = append(t.chunks, make([]entry[K, V], min(chunkLen, t.size-int(i))))
			}
		}
		e, head := t.at(i), t.bucket(hash)
		e.of, e.tag = of, append(e.tag[:0], tag...)
		e.hash, e.chain = hash, *head
		*head = i
	} else {
		t.unlink(i)
	}
	t.link(i)
	return &t.at(i).value, fresh
}

func (t *Table[K, V]) find(of K, tag []byte, hash uint64) int32 {
	for i := *t.bucket(hash); i != none; {
		e := t.at(i)
		if e.hash == hash && e.of == of && text.Equal(e.tag, tag) {
			return i
		}
		i = e.chain
	}
	return none
}

//go:inline
func (t *Table[K, V]) bucket(hash uint64) *int32 { return &t.buckets[hash&uint64(len(t.buckets)-1)] }

// unlink takes an entry out of the order of use.
//
//go:inline
func (t *Table[K, V]) unlink(i int32) {
	e := t.at(i)
	if e.newer == none {
		t.newest = e.older
	} else {
		t.at(e.newer).older = e.older
	}
	if e.older == none {
		t.oldest = e.newer
	} else {
		t.at(e.older).newer = e.newer
	}
}

// link makes an entry the one used last.
//
//go:inline
func (t *Table[K, V]) link(i int32) {
	e := t.at(i)
	e.newer, e.older = none, t.newest
	if t.newest == none {
		t.oldest = i
	} else {
		t.at(t.newest).newer = i
	}
	t.newest = i
}
