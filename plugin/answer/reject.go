package answer

import (
	"strconv"
	"strings"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/jsontext"
	"github.com/sluiceproxy/sluice/plugin/text"
)

const (
	// Status codes of gRPC that rejections carry.
	grpcNone              = -1
	grpcResourceExhausted = 8
	grpcUnavailable       = 14

	problemType = "application/problem+json"
	plainType   = "text/plain; charset=utf-8"

	exceeded = `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",` +
		`"title":"Too Many Requests","status":`
	abnormal = `{"type":"https://iana.org/assignments/http-problem-types#abnormal-usage-detected",` +
		`"title":"Too Many Requests","status":`

	denyDetail = "The rate limiter is unavailable, so the request was refused. Try again later."
	denyBody   = `{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",` +
		`"title":"Service Unavailable","status":503,"detail":"` + denyDetail + `"}`
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
		l := &r.By[0]
		for i := range r.By {
			other := &r.By[i]
			if l.Decision.Allowed || !other.Decision.Allowed &&
				longer(other.Decision.RetryAfterMicros, l.Decision.RetryAfterMicros) {
				l = other
			}
		}
		dst = jsontext.AppendString(dst, l.Label.Name)
		wait, values = l.Decision.RetryAfterMicros, l.Values
	}
	dst = jsontext.AppendString(append(dst, `,"identity":`...), r.Identity)
	if len(values) > 0 {
		dst = jsontext.AppendString(append(dst, `,"per":`...), text.View(values))
	}
	if wait != algo.Never {
		dst = strconv.AppendInt(append(dst, `,"retry_after":`...), max(1, seconds(wait)), 10)
	}
	return append(dst, '}')
}

// Reply is an answer in place of the upstream's.
type Reply struct {
	Status     uint32
	Headers    [][2]string // names in lower case, each once
	Body       string
	GRPCStatus int32 // -1 if the request is not gRPC
}

// IsGRPC reports whether Envoy takes a request of this content type for gRPC, as
// its Grpc::Common::isGrpcRequestHeaders does. gRPC-Web does not count.
func IsGRPC(contentType string) bool {
	rest, ok := strings.CutPrefix(contentType, "application/grpc")
	return ok && (rest == "" || rest[0] == '+')
}

// Refuse answers a request that is refused.
func (w *Writer) Refuse(r *Rejection) Reply {
	w.reset()
	if r.Undecided { // and the failure mode is deny
		w.addInt("retry-after", denyRetrySeconds)
		if r.GRPC {
			return Reply{Status: 503, Headers: w.fields, Body: denyDetail, GRPCStatus: grpcUnavailable}
		}
		w.add("content-type", problemType)
		return Reply{Status: 503, Headers: w.fields, Body: denyBody, GRPCStatus: grpcNone}
	}
	retrySeconds := r.retrySeconds()
	// Clients who are rejected together do not come back together.
	if most := (retrySeconds*w.jitterPercent + 99) / 100; most > 0 {
		retrySeconds += int64(w.random.Uint64() % uint64(most+1))
	}
	if !r.Blocked || nearest(r.Limits, true) != nil {
		w.addLimits(r.Limits, r.AtMicros, true, retrySeconds, Upstream{})
	} else { // a rule that blocks may have no limits
		if w.headers.XRateLimit && !r.Silent {
			none := Limit{Label: &Label{}, Decision: algo.Decision{ResetAfterMicros: max(r.LeftMicros, 0)}}
			w.addXRateLimit(&none, r.AtMicros)
		}
		if w.headers.Draft {
			w.addDraft(r.Limits, r.AtMicros, retrySeconds, Upstream{})
		}
	}
	if retrySeconds > 0 {
		w.addInt("retry-after", retrySeconds)
	}
	if w.envoyRateLimited {
		w.add("x-envoy-ratelimited", "true")
	}
	response := r.Response
	if response == nil {
		response = w.response
	}
	if !r.GRPC { // the configured type, or that of the body
		contentType := problemType
		switch {
		case response == nil:
		case response.ContentType != "":
			contentType = response.ContentType
		case response.HasBody:
			contentType = plainType
		}
		w.add("content-type", contentType)
	}
	reply := Reply{Status: 429, GRPCStatus: grpcNone}
	if response != nil {
		reply.Status = response.Status
		w.fields = append(w.fields, response.Headers...)
	}
	reply.Headers = w.fields
	switch {
	case r.GRPC:
		reply.GRPCStatus = grpcResourceExhausted
		start := len(w.buf)
		w.addDetail(r, retrySeconds, false)
		reply.Body = text.View(w.buf[start:])
	case response != nil && response.HasBody:
		reply.Body = response.Body
	default:
		reply.Body = w.problem(r, retrySeconds, reply.Status)
	}
	return reply
}

// denyRetrySeconds is when to try again: how long Redis will be away nobody knows, and an outage ends
// within seconds of its return.
const denyRetrySeconds = 1

// retrySeconds is the longest wait of what rejects, at least 1; 0 if waiting does not help.
func (r *Rejection) retrySeconds() int64 {
	if r.Chained {
		return waitSeconds(r.WaitMicros)
	}
	longest := r.LeftMicros
	for i := range r.Limits {
		if d := &r.Limits[i].Decision; !d.Allowed {
			longest = algo.LongerWait(longest, d.RetryAfterMicros)
		}
	}
	return waitSeconds(longest)
}

// waitSeconds is a wait in seconds, at least 1; 0 if waiting does not help.
func waitSeconds(micros int64) int64 {
	if micros == algo.Never {
		return 0
	}
	return max(1, seconds(micros))
}

// problem is the problem details of a rejection (RFC 9457). Those of a block name no policies: none
// is violated.
func (w *Writer) problem(r *Rejection, retrySeconds int64, status uint32) string {
	start := len(w.buf)
	kind := exceeded
	if r.Blocked {
		kind = abnormal
	}
	w.buf = strconv.AppendUint(append(w.buf, kind...), uint64(status), 10)
	w.buf = append(w.buf, `,"detail":"`...)
	w.addDetail(r, retrySeconds, true)
	if !r.Blocked && violates(r.Limits) {
		w.buf = append(w.buf, `","violated-policies":["`...)
		w.addNames(r.Limits, `","`, true)
		w.buf = append(w.buf, `"]}`...)
	} else {
		w.buf = append(w.buf, `"}`...)
	}
	return text.View(w.buf[start:])
}

// addDetail writes the sentences that explain the rejection, perhaps inside a JSON string.
func (w *Writer) addDetail(r *Rejection, retrySeconds int64, json bool) {
	switch {
	case r.Blocked:
		w.buf = append(w.buf, "Blocked."...)
		if retrySeconds == 0 {
			return
		}
		w.buf = append(w.buf, ' ')
	default:
		w.buf = append(w.buf, "Limit exceeded"...)
		if violates(r.Limits) {
			w.buf = append(w.buf, ": "...)
			w.addNames(r.Limits, ", ", json)
		}
		w.buf = append(w.buf, ". "...)
		if retrySeconds == 0 {
			w.buf = append(w.buf, "The request costs more than can be allowed at once, so waiting does not help."...)
			return
		}
	}
	w.buf = strconv.AppendInt(append(w.buf, "Retry after "...), retrySeconds, 10)
	if retrySeconds == 1 {
		w.buf = append(w.buf, " second."...)
	} else {
		w.buf = append(w.buf, " seconds."...)
	}
}

// violates reports whether clients are told the name of a limit that rejects.
func violates(limits []Limit) bool {
	for i := range limits {
		if limits[i].named() {
			return true
		}
	}
	return false
}

// named reports whether clients are told its name: the limit rejects, and no block does so in its place.
func (l *Limit) named() bool { return !l.Decision.Allowed && !l.Blocked && !l.Label.silent }

// addNames writes the names of the rejecting limits.
func (w *Writer) addNames(limits []Limit, separator string, json bool) {
	first := true
	for i := range limits {
		if !limits[i].named() {
			continue
		}
		if !first {
			w.buf = append(w.buf, separator...)
		}
		first = false
		if label := limits[i].Label; json {
			w.buf = append(w.buf, label.json...)
		} else {
			w.buf = append(w.buf, label.Name...)
		}
	}
}

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
	var g gist
	w := f.writer
	plain := !r.Undecided && !r.Blocked && !r.Chained && w.jitterPercent == 0
	if plain && len(r.Limits) == 1 && r.Limits[0].Sized == nil && !r.Limits[0].Blocked {
		l := &r.Limits[0]
		d := &l.Decision
		g = gist{
			label: l.Label, remaining: d.Remaining, resetSeconds: seconds(d.ResetAfterMicros),
			retrySeconds: waitSeconds(d.RetryAfterMicros), grpc: r.GRPC, response: r.Response,
		}
		if w.headers.ResetUnix {
			g.resetUnix = seconds(d.ResetAfterMicros + r.AtMicros)
		}
		if g == f.gist {
			return &f.last, true
		}
	}
	f.gist, f.last = g, w.Refuse(r)
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
