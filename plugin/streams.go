package main

import "math/bits"

// streams are the requests of a VM by the ids of their contexts. It is an open table with linear
// probing, at most half full. A request looks itself up in each callback, and Go's maps take several
// times the instructions.
type streams struct {
	places []place
	used   int
}

// place is a place of the table, free if it has no request.
type place struct {
	id      uint32
	request *httpRequest
}

func (p *place) free() bool { return p.request == nil }

// leastPlaces is the size of a table that has streams, a power of two as all sizes are.
//
// Bound: places of the smallest table of streams. Below it, the table does not shrink. Protects the
// table from growing again at once.
const leastPlaces = 16

// home is where the search for an id begins. Ids follow each other, so they are spread by the
// fraction of the golden ratio.
//
//go:inline
func (s *streams) home(id uint32) int {
	return int(id * 0x9e3779b1 >> (33 - bits.Len(uint(len(s.places)))))
}

//
//go:inline
func (s *streams) next(i int) int { return (i + 1) & (len(s.places) - 1) }

// find is the place of an id, or the free one where it would be.
//
//go:inline
func (s *streams) find(id uint32) int {
	i := s.home(id)
	for s.places[i].id != id && !s.places[i].free() {
		i = s.next(i)
	}
	return i
}

// get returns the request of an id, or nil.
func (s *streams) get(id uint32) *httpRequest {
	if len(s.places) == 0 {
		return nil
	}
	return s.places[s.find(id)].request
}

// put adds a request.
func (s *streams) put(id uint32, request *httpRequest) {
	if 2*(s.used+1) > len(s.places) {
		s.grow()
	}
	i := s.find(id)
	if s.places[i].free() {
		s.used++
	}
	s.places[i] = place{id, request}
}

func (s *streams) grow() {
	old := s.places
	s.places = make([]place, max(leastPlaces, 2*len(old)))
	for i := range old {
		if !old[i].free() {
			s.places[s.find(old[i].id)] = old[i]
		}
	}
}

// remove takes a stream out, if it is there, and moves those behind it up that were searched for
// across its place.
func (s *streams) remove(id uint32) {
	if s.used == 0 {
		return
	}
	hole := s.find(id)
	if s.places[hole].free() {
		return
	}
	for i := s.next(hole); !s.places[i].free(); i = s.next(i) {
		mask := len(s.places) - 1
		if home := s.home(s.places[i].id); (i-home)&mask >= (i-hole)&mask {
			s.places[hole] = s.places[i]
			hole = i
		}
	}
	s.places[hole] = place{}
	s.used--
}
