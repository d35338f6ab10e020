package main

import (
	"unsafe"

	"github.com/sluiceproxy/sluice/plugin/offenders"
)

// topOffenders follows the identities that are rejected most, and reports them after each
// interval with a rejection.
type topOffenders struct {
	sketch         *offenders.Sketch
	intervalMicros int64
	sinceMicros    int64 // when the interval began; 0 before a rejection
	shown          bool  // the gauges are not zero
	line           []byte
}

// reportOffenders logs the interval that is over, and sets the gauges of the highest ranks.
func (m *metrics) reportOffenders(nowMicros int64) {
	o := m.offenders
	if o == nil || o.sinceMicros == 0 || nowMicros < o.sinceMicros+o.intervalMicros {
		return
	}
	o.shown = o.sketch.Total() > 0
	if o.shown {
		seconds := (nowMicros - o.sinceMicros + 500_000) / 1_000_000
		o.line = o.sketch.AppendReport(o.line[:0], seconds)
		m.host.logLine(logInfo, unsafe.String(unsafe.SliceData(o.line), len(o.line)))
	}
	rank := 0
	for offender := range o.sketch.Top {
		if rank == len(m.ranks) {
			break
		}
		m.batch.Set(m.ranks[rank], offender.Rejections)
		rank++
	}
	for ; rank < len(m.ranks); rank++ {
		m.batch.Set(m.ranks[rank], 0)
	}
	o.sketch.Reset()
	o.sinceMicros = 0
}
