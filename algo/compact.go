package algo

// Compact shortens the state of a limit to at most n entries (at least 2), in
// place, where the state grows with the requests. It never admits more from then
// on than without, and what it admits later is late by less than window/(n-1),
// however often it is done.
func (l *Limit) Compact(s State, n int) State {
	if l.Algorithm == SlidingWindowLog {
		return compactLog(s, l.WindowMicros, n)
	}
	return s // as long as it will ever be, or an entry for each worker
}

// compactLog cuts time into cells of window/(n-1) and merges, from the oldest on
// and only as many as it must, neighbours in one cell: the units of both then
// count from the later one's time.
//
// The entries of one window lie in at most n cells, so this always gets there;
// should the clock have jumped, the oldest are merged whatever cells they are in.
func compactLog(log State, windowMicros int64, n int) State {
	excess := len(log)/entryLen - n
	if excess <= 0 {
		return log
	}
	cell := ceilDiv(windowMicros, int64(n-1))
	last := 0 // where the newest entry of the shortened log is
	for i := entryLen; i+entryLen <= len(log); i += entryLen {
		if excess > 0 && floorTo(log[i+entryLast], cell) <= log[last+entryLast] {
			log[last+entryLast] = log[i+entryLast]
			log[last+entryUnits] += log[i+entryUnits]
			excess--
			continue
		}
		last += entryLen
		copy(log[last:last+entryLen], log[i:])
	}
	return mergeOldest(log[:last+entryLen], excess)
}

// mergeOldest merges the oldest n+1 entries into one.
func mergeOldest(log State, n int) State {
	if n <= 0 {
		return log
	}
	first, units := log[entryFirst], int64(0)
	for i := range n {
		units += log[i*entryLen+entryUnits]
	}
	log = append(log[:0], log[n*entryLen:]...)
	log[entryFirst] = first
	log[entryUnits] += units
	return log
}
