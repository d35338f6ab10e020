package answer

import (
	"strconv"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/jsontext"
	"github.com/sluiceproxy/sluice/plugin/text"
)

// Rejection is all that the answer to a refused request says.
type Rejection struct {
	Text string // what access logs say
	// Undecided: no limit rejects the request. Redis did not decide it, and the failure mode
	// is deny. Only Text and GRPC are set then.
	Undecided bool

	Limits   []Limit // all that the client is shown, in rule order
	By       []Limit // of these those of the rule that rejects
	AtMicros int64   // Unix time of the decisions; 0 if no store has told one
	// Blocked: a block rejects, not a limit. LeftMicros is how long it still lasts; algo.Never
	// if it has no end, and 0 without one.
	Blocked    bool
	LeftMicros int64
	// Chained: some rule has an over, so that the limits do not say how long to wait. WaitMicros
	// does; algo.Never if waiting does not help.
	Chained    bool
	WaitMicros int64
	Identity   string // that the rule rejects
	Silent     bool   // clients see nothing of the limits of the rule that rejects
	// Response is the answer of the rule that rejects; nil: the configuration's.
	Response *config.Response
	GRPC     bool // the request is gRPC
}

// AppendState appends the filter state wasm.sluice.rejected, as JSON: the limit with the longest
// wait among those of the rule that rejects, null of a block; the identity as it stands in Redis
// keys, with the values of the limit's "per"; and the wait in seconds, where waiting helps.
func (r *Rejection) AppendState(dst []byte) []byte {
	dst = append(dst, `{"limit":`...)
	wait, values := r.LeftMicros, []byte(nil)
	if r.Blocked {
		dst = append(dst, "null"...)
	} else {
		l := longestWait(r.By)
		dst = jsontext.AppendString(dst, l.Label.Name)
		wait, values = l.Decision.RetryAfterMicros, l.Values
	}
	dst = append(dst, `,"identity":`...)
	dst = jsontext.AppendString(dst, r.Identity)
	if len(values) > 0 {
		dst = append(dst, `,"per":`...)
		dst = jsontext.AppendString(dst, text.View(values))
	}
	if wait != algo.Never {
		dst = append(dst, `,"retry_after":`...)
		dst = strconv.AppendInt(dst, max(1, seconds(wait)), 10)
	}
	return append(dst, '}')
}

// longestWait is the limit that rejects for longest.
func longestWait(limits []Limit) *Limit {
	longest := &limits[0]
	for i := range limits {
		l := &limits[i]
		if longest.Decision.Allowed || !l.Decision.Allowed &&
			longer(l.Decision.RetryAfterMicros, longest.Decision.RetryAfterMicros) {
			longest = l
		}
	}
	return longest
}
