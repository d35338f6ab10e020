package main

import (
	"unsafe"

	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/decide"
	"github.com/sluiceproxy/sluice/plugin/offenders"
)

// topOffenders follows the identities that are rejected most, and reports them after each
// interval with a rejection. A nil *topOffenders follows none.
type topOffenders struct {
	host           host
	sketch         *offenders.Sketch
	intervalMicros int64
	sinceMicros    int64 // when the interval began; 0 before a rejection
	shown          bool  // the gauges are not zero
	line           []byte
}

func newTopOffenders(h host, cfg *config.TopOffenders) *topOffenders {
	if cfg == nil {
		return nil
	}
	return &topOffenders{host: h, sketch: offenders.New(int(cfg.Size), h.Uint64()), intervalMicros: cfg.IntervalMicros}
}

// rejected counts the identities that a request is rejected for, or would be in a
// rule that is in shadow.
func (o *topOffenders) rejected(q *decide.Question) {
	if o == nil {
		return
	}
	for i := range q.Checks {
		if c := &q.Checks[i]; c.Status == decide.Rejected && !c.Excused && !c.Rule.Reports {
			o.sketch.Add(c.Rule.Name, c.Tag)
		}
	}
}

// nextMicros is the time until the next report, at least 1; 0 if there is nothing
// to report. An interval begins with the first call after a rejection.
func (o *topOffenders) nextMicros(nowMicros int64) int64 {
	if o == nil || o.sketch.Total() == 0 && !o.shown {
		return 0
	}
	if o.sinceMicros == 0 {
		o.sinceMicros = nowMicros
	}
	return max(1, o.sinceMicros+o.intervalMicros-nowMicros)
}

// report logs the interval that is over, and sets the gauges of the highest ranks.
func (o *topOffenders) report(m *metrics, nowMicros int64) {
	if o == nil || o.sinceMicros == 0 || nowMicros < o.sinceMicros+o.intervalMicros {
		return
	}
	o.shown = o.sketch.Total() > 0
	if o.shown {
		seconds := (nowMicros - o.sinceMicros + 500_000) / 1_000_000
		o.line = o.sketch.AppendReport(o.line[:0], seconds)
		o.host.logLine(logInfo, unsafe.String(unsafe.SliceData(o.line), len(o.line)))
	}
	m.rank(o.sketch)
	o.sketch.Reset()
	o.sinceMicros = 0
}

// rank sets the gauges of the highest ranks.
func (m *metrics) rank(s *offenders.Sketch) {
	rank := 0
	for offender := range s.Top {
		if rank == len(m.ranks) {
			return
		}
		m.batch.Set(m.ranks[rank], offender.Rejections)
		rank++
	}
	for ; rank < len(m.ranks); rank++ {
		m.batch.Set(m.ranks[rank], 0)
	}
}
