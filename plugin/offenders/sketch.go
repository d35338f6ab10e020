// Package offenders follows, in memory of fixed size, the identities that are
// rejected most: Space-Saving (A. Metwally, D. Agrawal, A. El Abbadi, "Efficient
// Computation of Frequent and Top-k Elements in Data Streams", ICDT 2005).
//
// Of N rejections a Sketch of size m holds every identity that has more than N/m
// of them. A count is never too low, and at most Error too high. Once all m
// places have been used nothing is allocated.
package offenders

import (
	"bytes"
	"cmp"
	"sort"

	"github.com/sluiceproxy/sluice/plugin/keyhash"
	"github.com/sluiceproxy/sluice/plugin/text"
)

// Sketch is one worker's counts. It is not safe for concurrent use.
type Sketch struct {
	size    int
	total   int64
	places  []place // in the order in which they were first used
	heap    []int32 // indices of places: the lowest count is at the root
	order   []int32 // scratch of Top
	buckets []int32 // a power of two; heads of chains
	key     keyhash.Key
}

// Offender is an identity that was rejected.
type Offender struct {
	Rule string
	// Tag is "<rule>|<identity>" as in Redis keys.
	Tag []byte
	// Rejections is how many there were, or Error more than that at most.
	Rejections int64
	Error      int64
}

// place is where one identity is counted.
type place struct {
	Offender

	hash   uint64
	chain  int32 // the next place of the same bucket
	inHeap int32
}

const none = -1

// New makes a Sketch of at least one place. Its seed differs in each worker.
func New(size int, seed uint64) *Sketch {
	buckets := 1
	for buckets < size {
		buckets *= 2
	}
	s := &Sketch{size: size, buckets: make([]int32, buckets), key: keyhash.New(seed)}
	s.Reset()
	return s
}

// Reset begins to count anew.
func (s *Sketch) Reset() {
	for i := range s.buckets {
		s.buckets[i] = none
	}
	s.total = 0
	s.places, s.heap = s.places[:0], s.heap[:0]
}

// Total is how many rejections there were, of all identities.
func (s *Sketch) Total() int64 { return s.total }

// Add counts a rejection of an identity, whose tag is copied, by a rule.
func (s *Sketch) Add(rule string, tag []byte) {
	s.total++
	hash := s.key.Sum(tag)
	i := *s.bucket(hash)
	for i != none && (s.places[i].hash != hash || !text.Equal(s.places[i].Tag, tag)) {
		i = s.places[i].chain
	}
	if i == none { // it gets a new place, or that of the lowest count, which it inherits as its error
		i = int32(len(s.places))
		if len(s.places) < s.size { // its count is 0, the lowest there is: the heap's root
			if len(s.places) < cap(s.places) {
				s.places = s.places[:i+1] // with the memory of before Reset
			} else {
				s.places = append(s.places, place{})
			}
			s.places[i].Rejections = 0
			s.heap = append(s.heap, i)
			s.places[i].inHeap = i
			for at := i; at > 0; at = (at - 1) / 2 {
				s.swap(at, (at-1)/2)
			}
		} else { // it leaves its bucket
			i = s.heap[0]
			at := s.bucket(s.places[i].hash)
			for *at != i {
				at = &s.places[*at].chain
			}
			*at = s.places[i].chain
		}
		p, head := &s.places[i], s.bucket(hash)
		p.Rule, p.Tag, p.Error = rule, append(p.Tag[:0], tag...), p.Rejections
		p.hash, p.chain = hash, *head
		*head = i
	}
	s.places[i].Rejections++
	for at, lowest := s.places[i].inHeap, int32(0); ; at = lowest { // the heap below a count that has grown
		lowest = at
		for child := 2*at + 1; child <= 2*at+2 && int(child) < len(s.heap); child++ {
			if s.at(child).Rejections < s.at(lowest).Rejections {
				lowest = child
			}
		}
		if lowest == at {
			return
		}
		s.swap(at, lowest)
	}
}

func (s *Sketch) bucket(hash uint64) *int32 { return &s.buckets[hash&uint64(len(s.buckets)-1)] }

func (s *Sketch) at(position int32) *place { return &s.places[s.heap[position]] }

func (s *Sketch) swap(a, b int32) {
	s.heap[a], s.heap[b] = s.heap[b], s.heap[a]
	s.at(a).inHeap, s.at(b).inHeap = a, b
}

// mostFirst sorts a sketch's order. sort.Sort is code that regexp/syntax brings along, where each
// use of slices.SortFunc is another 2 KB in the .wasm.
type mostFirst Sketch

func (s *mostFirst) Len() int      { return len(s.order) }
func (s *mostFirst) Swap(i, j int) { s.order[i], s.order[j] = s.order[j], s.order[i] }

func (s *mostFirst) Less(i, j int) bool {
	x, y := &s.places[s.order[i]], &s.places[s.order[j]]
	return cmp.Or(cmp.Compare(y.Rejections, x.Rejections), bytes.Compare(x.Tag, y.Tag)) < 0
}

// Top calls yield for each identity that is held, the most rejected first, those
// with the same count by their tags. It is an iterator.
func (s *Sketch) Top(yield func(*Offender) bool) {
	s.order = append(s.order[:0], s.heap...)
	sort.Sort((*mostFirst)(s))
	for _, i := range s.order {
		if !yield(&s.places[i].Offender) {
			return
		}
	}
}
