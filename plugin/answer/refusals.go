package answer

import "github.com/sluiceproxy/sluice/plugin/config"

// Refusals answers the requests that are refused. A client that keeps trying gets the same answer
// until a second has passed. So the last answer is kept, and written anew only where it would differ.
type Refusals struct {
	// Wire is the headers of the last answer as the caller sends them. The caller writes it whenever
	// an answer is new.
	Wire []byte

	writer *Writer // of these answers alone, as they stay in its memory
	gist   gist    // of the last answer
	last   Reply
}

// NewRefusals prepares Refusals as New does a Writer.
func NewRefusals(cfg *config.Config, seed uint64) *Refusals {
	return &Refusals{writer: New(cfg, seed)}
}

// Answer answers a request. The answer is good until the next call, and must not be changed. again
// reports whether it is the last one once more.
func (f *Refusals) Answer(r *Rejection) (reply *Reply, again bool) {
	g := f.writer.gistOf(r)
	if g.label != nil && g == f.gist {
		return &f.last, true
	}
	f.gist, f.last = g, f.writer.Refuse(r)
	return &f.last, false
}

// gist is all that an answer depends on if one limit is shown, which has the configured size: of
// times, the seconds that are written. Other answers have no gist.
type gist struct {
	label        *Label // nil: this is none
	remaining    int64
	resetSeconds int64 // until the quota is back
	resetUnix    int64 // when it is, where headers say that
	retrySeconds int64
	grpc         bool
	response     *config.Response
}

func (w *Writer) gistOf(r *Rejection) (g gist) {
	plain := !r.Undecided && !r.Blocked && !r.Chained && w.jitterPercent == 0
	if !plain || len(r.Limits) != 1 {
		return g
	}
	l := &r.Limits[0]
	d := &l.Decision
	if l.Sized != nil || l.Blocked {
		return g
	}
	g = gist{
		label: l.Label, remaining: d.Remaining, resetSeconds: seconds(d.ResetAfterMicros),
		retrySeconds: waitSeconds(d.RetryAfterMicros), grpc: r.GRPC, response: r.Response,
	}
	if w.headers.ResetUnix {
		g.resetUnix = seconds(d.ResetAfterMicros + r.AtMicros)
	}
	return g
}
