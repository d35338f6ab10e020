package answer

import (
	"strconv"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/text"
)

const abnormal = `{"type":"https://iana.org/assignments/http-problem-types#abnormal-usage-detected",` +
	`"title":"Too Many Requests","status":`

// Block answers a request whose identity is blocked, for leftMicros or, with
// algo.Never, without end. limits are all that apply, in rule order; those of the rule
// that blocks reject, and there may be none. nowMicros is the Unix time of the
// decisions.
func (w *Writer) Block(limits []Limit, leftMicros, nowMicros int64, grpc bool) Reply {
	return w.block(limits, leftMicros, blockSeconds(limits, leftMicros), nowMicros, grpc)
}

// block is Block with the wait; 0 for none.
func (w *Writer) block(limits []Limit, leftMicros, retrySeconds, nowMicros int64, grpc bool) Reply {
	w.reset()
	if nearest(limits, true) == nil { // the rule has no limits
		none := Limit{Label: &Label{}, Decision: algo.Decision{ResetAfterMicros: max(leftMicros, 0)}}
		if w.headers.XRateLimit {
			w.addXRateLimit(&none, nowMicros)
		}
		if w.headers.Draft && len(limits) > 0 {
			w.addDraft(limits, Upstream{})
		}
	} else {
		w.addLimits(limits, nowMicros, true, Upstream{})
	}
	return w.reject(limits, w.spread(retrySeconds), grpc, (*Writer).blockProblem, (*Writer).blockDetail)
}

// blockSeconds is the longest wait of what rejects; 0 if waiting does not help.
func blockSeconds(limits []Limit, leftMicros int64) int64 {
	for i := range limits {
		if d := &limits[i].Decision; !d.Allowed && longer(d.RetryAfterMicros, leftMicros) {
			leftMicros = d.RetryAfterMicros
		}
	}
	return waitSeconds(leftMicros)
}

// blockProblem is the problem details of a block (RFC 9457). It names no policies:
// none is violated.
func (w *Writer) blockProblem(_ []Limit, retrySeconds int64, status uint32) string {
	start := len(w.buf)
	w.buf = append(w.buf, abnormal...)
	w.buf = strconv.AppendUint(w.buf, uint64(status), 10)
	w.buf = append(w.buf, `,"detail":"`...)
	w.addBlockDetail(retrySeconds)
	w.buf = append(w.buf, `"}`...)
	return text.View(w.buf[start:])
}

// blockDetail is the text about a block for a gRPC client.
func (w *Writer) blockDetail(_ []Limit, retrySeconds int64) string {
	start := len(w.buf)
	w.addBlockDetail(retrySeconds)
	return text.View(w.buf[start:])
}

func (w *Writer) addBlockDetail(retrySeconds int64) {
	w.buf = append(w.buf, "Blocked."...)
	if retrySeconds > 0 {
		w.buf = append(w.buf, ' ')
		w.addRetry(retrySeconds)
	}
}

// AppendBlocked appends what the filter state wasm.sluice.rejected says of a block, as
// AppendRejected does of a limit.
func AppendBlocked(dst []byte, leftMicros int64, identity string) []byte {
	return appendRejected(append(dst, `{"limit":null`...), leftMicros, identity, nil)
}
