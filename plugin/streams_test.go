package main

import (
	"math/rand/v2"
	"testing"
)

// Streams that come and go in any order are found as a map finds them, and the table is as large as
// the most of them at a time need.
func TestStreams(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	const most = 300
	var s streams
	want := map[uint32]*httpRequest{}
	var live []uint32
	check := func(id uint32) {
		if got := s.get(id); got != want[id] {
			t.Fatalf("%d: %p, want %p", id, got, want[id])
		}
	}
	for id := uint32(1); id < 100_000; id += 1 + random.Uint32N(3) {
		for len(live) == most || len(live) > 0 && random.IntN(20) < 9 {
			i := random.IntN(len(live))
			gone := live[i]
			live[i] = live[len(live)-1]
			live = live[:len(live)-1]
			s.remove(gone)
			s.remove(gone)
			delete(want, gone)
			check(gone)
		}
		want[id] = new(httpRequest)
		live = append(live, id)
		s.put(id, want[id])
		check(id)
		check(live[random.IntN(len(live))])
		check(id + 1)
	}
	for id := range want {
		check(id)
	}
	if s.used != len(want) {
		t.Errorf("%d streams, want %d", s.used, len(want))
	}
	if n := len(s.places); n > 4*most {
		t.Errorf("%d places for at most %d streams", n, most)
	}
}

// One stream that stays for ever does not make the table grow.
func TestStreamThatStays(t *testing.T) {
	t.Parallel()
	var s streams
	old := new(httpRequest)
	s.put(7, old)
	for id := uint32(8); id < 1_000_000; id++ {
		s.put(id, new(httpRequest))
		s.remove(id)
	}
	if s.get(7) != old {
		t.Error("it was lost")
	}
	if n := len(s.places); n != leastPlaces {
		t.Errorf("%d places, want %d", n, leastPlaces)
	}
}

// An empty table has no stream, id 0 among them.
func TestNoStreams(t *testing.T) {
	t.Parallel()
	var s streams
	s.remove(1)
	for _, id := range []uint32{0, 1} {
		if p := s.get(id); p != nil {
			t.Errorf("%d: %+v", id, p)
		}
	}
}
