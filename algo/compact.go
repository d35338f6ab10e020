package algo

// Compact shortens the state of a limit to at most n entries (at least 2), in
// place, where the state grows with the requests. It never admits more from then
// on than without, and what it admits later is late by less than window/(n-1),
// however often it is done.
//
// It cuts time into cells of window/(n-1) and merges, from the oldest on and only as many as it
// must, neighbours in one cell: the units of both then count from the later one's time.
func (l *Limit) Compact(s State, n int) State {
	excess := len(s)/entryLen - n
	if l.Algorithm != SlidingWindowLog || excess <= 0 {
		return s // others are as long as they will ever be, or have an entry for each worker
	}
	cell := ceilDiv(l.WindowMicros, int64(n-1))
	last := 0 // where the newest entry of the shortened log is
	for i := entryLen; i+entryLen <= len(s); i += entryLen {
		if excess > 0 && floorTo(s[i+entryLast], cell) <= s[last+entryLast] {
			s[last+entryLast] = s[i+entryLast]
			s[last+entryUnits] += s[i+entryUnits]
			excess--
			continue
		}
		last += entryLen
		copy(s[last:last+entryLen], s[i:])
	}
	s = s[:last+entryLen]
	// The entries of one window lie in at most n cells, so that is all; should the clock have jumped, the
	// oldest are merged whatever cells they are in.
	if excess > 0 {
		first, units := s[entryFirst], int64(0)
		for i := range excess {
			units += s[i*entryLen+entryUnits]
		}
		s = append(s[:0], s[excess*entryLen:]...)
		s[entryFirst] = first
		s[entryUnits] += units
	}
	return s
}
