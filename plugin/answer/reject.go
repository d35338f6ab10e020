package answer

import (
	"strconv"
	"strings"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/text"
)

// Status codes of gRPC that rejections carry.
const (
	grpcNone              = -1
	grpcResourceExhausted = 8
	grpcUnavailable       = 14
)

const (
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
	if r.Undecided {
		return w.deny(r.GRPC)
	}
	retrySeconds := w.spread(r.retrySeconds())
	w.addRejecting(r, retrySeconds)
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
	if !r.GRPC {
		w.add("content-type", contentType(response))
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
		reply.Body = w.detail(r, retrySeconds)
	case response != nil && response.HasBody:
		reply.Body = response.Body
	default:
		reply.Body = w.problem(r, retrySeconds, reply.Status)
	}
	return reply
}

// addRejecting adds the headers of the limits. A rule that blocks may have none.
func (w *Writer) addRejecting(r *Rejection, retrySeconds int64) {
	if !r.Blocked || nearest(r.Limits, true) != nil {
		w.addLimits(r.Limits, r.AtMicros, true, retrySeconds, Upstream{})
		return
	}
	if w.headers.XRateLimit && !r.Silent {
		none := Limit{Label: &Label{}, Decision: algo.Decision{ResetAfterMicros: max(r.LeftMicros, 0)}}
		w.addXRateLimit(&none, r.AtMicros)
	}
	if w.headers.Draft {
		w.addDraft(r.Limits, r.AtMicros, retrySeconds, Upstream{})
	}
}

// contentType is the configured one, or that of the body.
func contentType(response *config.Response) string {
	switch {
	case response == nil:
		return problemType
	case response.ContentType != "":
		return response.ContentType
	case response.HasBody:
		return plainType
	}
	return problemType
}

// denyRetrySeconds is when to try again: how long Redis will be away nobody knows, and an outage ends
// within seconds of its return.
const denyRetrySeconds = 1

// deny answers a request that could not be decided when the failure mode is deny.
func (w *Writer) deny(grpc bool) Reply {
	w.addInt("retry-after", denyRetrySeconds)
	if grpc {
		return Reply{Status: 503, Headers: w.fields, Body: denyDetail, GRPCStatus: grpcUnavailable}
	}
	w.add("content-type", problemType)
	return Reply{Status: 503, Headers: w.fields, Body: denyBody, GRPCStatus: grpcNone}
}

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

// spread makes a wait longer by a random share of it, so that clients who are rejected
// together do not come back together.
func (w *Writer) spread(seconds int64) int64 {
	most := (seconds*w.jitterPercent + 99) / 100
	if seconds == 0 || most == 0 {
		return seconds
	}
	return seconds + int64(w.random.Uint64()%uint64(most+1))
}

// problem is the problem details of a rejection (RFC 9457). Those of a block name no policies: none
// is violated.
func (w *Writer) problem(r *Rejection, retrySeconds int64, status uint32) string {
	start := len(w.buf)
	if r.Blocked {
		w.buf = append(w.buf, abnormal...)
	} else {
		w.buf = append(w.buf, exceeded...)
	}
	w.buf = strconv.AppendUint(w.buf, uint64(status), 10)
	w.buf = append(w.buf, `,"detail":"`...)
	w.addDetail(r, retrySeconds, (*Label).jsonName)
	if !r.Blocked && violates(r.Limits) {
		w.buf = append(w.buf, `","violated-policies":["`...)
		w.addNames(r.Limits, `","`, (*Label).jsonName)
		w.buf = append(w.buf, `"]}`...)
	} else {
		w.buf = append(w.buf, `"}`...)
	}
	return text.View(w.buf[start:])
}

// detail is the text for a gRPC client.
func (w *Writer) detail(r *Rejection, retrySeconds int64) string {
	start := len(w.buf)
	w.addDetail(r, retrySeconds, (*Label).name)
	return text.View(w.buf[start:])
}

func (p *Label) name() string     { return p.Name }
func (p *Label) jsonName() string { return p.json }

// addDetail writes the sentences that explain the rejection.
func (w *Writer) addDetail(r *Rejection, retrySeconds int64, name func(*Label) string) {
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
			w.addNames(r.Limits, ", ", name)
		}
		w.buf = append(w.buf, ". "...)
		if retrySeconds == 0 {
			w.buf = append(w.buf, "The request costs more than can be allowed at once, so waiting does not help."...)
			return
		}
	}
	w.addRetry(retrySeconds)
}

// addRetry writes the sentence that says how long to wait.
func (w *Writer) addRetry(retrySeconds int64) {
	if retrySeconds == 1 {
		w.buf = append(w.buf, "Retry after 1 second."...)
		return
	}
	w.buf = append(w.buf, "Retry after "...)
	w.buf = strconv.AppendInt(w.buf, retrySeconds, 10)
	w.buf = append(w.buf, " seconds."...)
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
func (w *Writer) addNames(limits []Limit, separator string, name func(*Label) string) {
	first := true
	for i := range limits {
		if !limits[i].named() {
			continue
		}
		if !first {
			w.buf = append(w.buf, separator...)
		}
		first = false
		w.buf = append(w.buf, name(limits[i].Label)...)
	}
}
