package answer

import (
	"strconv"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/text"
)

// Report is all that the answer to a request for the quota says.
type Report struct {
	Text   string  // what access logs say
	Limits []Limit // in the order of quota.rules
	// OtherMethod: the request is no GET or HEAD, and is told so.
	OtherMethod bool
	// GRPC: Envoy takes the request for gRPC, which the quota is not.
	GRPC bool
	// Blocked: a block is in force. LeftMicros is how long the longest one lasts; algo.Never if it has
	// no end.
	Blocked    bool
	LeftMicros int64
}

// Block notes a block that lasts for so long.
func (r *Report) Block(leftMicros int64) {
	r.Blocked, r.LeftMicros = true, algo.LongerWait(r.LeftMicros, leftMicros)
}

const (
	jsonType    = "application/json"
	otherMethod = `{"type":"about:blank","title":"Method Not Allowed","status":405,` +
		`"detail":"The quota is read by GET or HEAD."}`
	noGRPC            = "The quota is read by GET or HEAD, as JSON."
	grpcUnimplemented = 12
)

// Report answers a request for the quota.
func (w *Writer) Report(r *Report) Reply {
	w.reset()
	w.add("cache-control", "no-store")
	if r.GRPC {
		return Reply{Status: 200, Headers: w.fields, Body: noGRPC, GRPCStatus: grpcUnimplemented}
	}
	if r.OtherMethod {
		w.add("content-type", problemType)
		w.add("allow", "GET, HEAD")
		return Reply{Status: 405, Headers: w.fields, Body: otherMethod, GRPCStatus: grpcNone}
	}
	w.add("content-type", jsonType)
	start := len(w.buf)
	w.buf = append(w.buf, `{"limits":[`...)
	for i := range r.Limits {
		if i > 0 {
			w.buf = append(w.buf, ',')
		}
		l := &r.Limits[i]
		w.buf = append(append(w.buf, `{"name":"`...), l.Label.json...)
		w.buf = strconv.AppendInt(append(w.buf, `","limit":`...), l.capacity(), 10)
		w.buf = strconv.AppendInt(append(w.buf, `,"remaining":`...), l.Decision.Remaining, 10)
		w.buf = strconv.AppendInt(append(w.buf, `,"reset":`...), seconds(l.Decision.ResetAfterMicros), 10)
		if !l.Label.slots { // a limit on what is in flight has no window
			w.buf = strconv.AppendInt(append(w.buf, `,"window":`...), max(1, seconds(l.restoreMicros())), 10)
		}
		w.buf = append(append(w.buf, `,"unit":"`...), l.Label.unit...)
		w.buf = append(w.buf, `"}`...)
	}
	w.buf = append(w.buf, ']')
	if r.Blocked {
		w.buf = append(w.buf, `,"blocked":{"seconds":`...)
		if r.LeftMicros == algo.Never {
			w.buf = append(w.buf, "null"...)
		} else {
			w.buf = strconv.AppendInt(w.buf, seconds(r.LeftMicros), 10)
		}
		w.buf = append(w.buf, '}')
	}
	w.buf = append(w.buf, '}')
	return Reply{Status: 200, Headers: w.fields, Body: text.View(w.buf[start:]), GRPCStatus: grpcNone}
}
