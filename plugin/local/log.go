package local

import "github.com/sluiceproxy/sluice/algo"

// maxRuns is the most runs of a sliding_window_log that are kept of one
// identity: it is 2 to 4 KB. A run is the requests of one microsecond.
const maxRuns = 512

// A log's State is runs, oldest first, each two numbers.
const (
	runTime  = 0
	runUnits = 1
	runLen   = 2
)

// coarsen shortens a log to at most maxRuns runs (at least 2). It cuts time
// into cells of window/(maxRuns-1) and merges, from the oldest on and only as
// many as it must, neighbours in one cell: the units of both then count from
// the later one's time. So the log never admits more than the full log would,
// and a unit leaves it less than a cell late, however often it is shortened.
//
// The runs of one window lie in at most maxRuns cells, so this always gets
// there; should the clock have jumped, the oldest runs are merged whatever
// cells they are in.
func coarsen(log algo.State, windowMicros int64, maxRuns int) algo.State {
	excess := len(log)/runLen - maxRuns
	if excess <= 0 {
		return log
	}
	cell := (windowMicros + int64(maxRuns) - 2) / int64(maxRuns-1)
	last := 0 // where the newest run of the shortened log is
	for i := runLen; i+runLen <= len(log); i += runLen {
		if excess > 0 && log[last+runTime]/cell == log[i+runTime]/cell {
			log[last+runTime] = log[i+runTime]
			log[last+runUnits] += log[i+runUnits]
			excess--
			continue
		}
		last += runLen
		log[last+runTime], log[last+runUnits] = log[i+runTime], log[i+runUnits]
	}
	return mergeOldest(log[:last+runLen], excess)
}

// mergeOldest merges the oldest n+1 runs into one.
func mergeOldest(log algo.State, n int) algo.State {
	if n <= 0 {
		return log
	}
	units := int64(0)
	for i := range n {
		units += log[i*runLen+runUnits]
	}
	log = append(log[:0], log[n*runLen:]...)
	log[runUnits] += units
	return log
}
