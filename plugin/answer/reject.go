package answer

import (
	"strconv"
	"strings"

	"github.com/sluiceproxy/sluice/algo"
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

// Reject answers a request that at least one of its limits rejected. limits are
// all that apply, in rule order; nowMicros is the Unix time of the decisions.
func (w *Writer) Reject(limits []Limit, nowMicros int64, grpc bool) Reply {
	return w.rejectLimits(limits, retryAfter(limits), nowMicros, grpc)
}

// rejectLimits is Reject with the wait; 0 for none.
func (w *Writer) rejectLimits(limits []Limit, retrySeconds, nowMicros int64, grpc bool) Reply {
	w.reset()
	w.addLimits(limits, nowMicros, true, Upstream{})
	return w.reject(limits, w.spread(retrySeconds), grpc, (*Writer).problem, (*Writer).detail)
}

// reject completes an answer that shows its limits already.
func (w *Writer) reject(limits []Limit, retrySeconds int64, grpc bool, problem writeProblem, detail writeDetail) Reply {
	if retrySeconds > 0 {
		w.addInt("retry-after", retrySeconds)
	}
	if w.envoyRateLimited {
		w.add("x-envoy-ratelimited", "true")
	}
	if !grpc {
		w.add("content-type", w.contentType())
	}
	reply := Reply{Status: 429, GRPCStatus: grpcNone}
	if w.response != nil {
		reply.Status = w.response.Status
		w.fields = append(w.fields, w.response.Headers...)
	}
	reply.Headers = w.fields
	switch {
	case grpc:
		reply.GRPCStatus = grpcResourceExhausted
		reply.Body = detail(w, limits, retrySeconds)
	case w.response != nil && w.response.HasBody:
		reply.Body = w.response.Body
	default:
		reply.Body = problem(w, limits, retrySeconds, reply.Status)
	}
	return reply
}

// What is written of a rejection: to a gRPC client, and to others.
type (
	writeDetail  func(w *Writer, limits []Limit, retrySeconds int64) string
	writeProblem func(w *Writer, limits []Limit, retrySeconds int64, status uint32) string
)

// contentType is the configured one, or that of the body.
func (w *Writer) contentType() string {
	switch {
	case w.response == nil:
		return problemType
	case w.response.ContentType != "":
		return w.response.ContentType
	case w.response.HasBody:
		return plainType
	}
	return problemType
}

// Deny answers a request that could not be decided when the failure mode is
// deny.
func (w *Writer) Deny(grpc bool) Reply {
	w.reset()
	if grpc {
		return Reply{Status: 503, Headers: w.fields, Body: denyDetail, GRPCStatus: grpcUnavailable}
	}
	w.add("content-type", problemType)
	return Reply{Status: 503, Headers: w.fields, Body: denyBody, GRPCStatus: grpcNone}
}

// retryAfter is the longest wait of the rejecting limits in seconds, at least 1;
// 0 if waiting does not help.
func retryAfter(limits []Limit) int64 {
	longest := int64(0)
	for i := range limits {
		d := &limits[i].Decision
		if !d.Allowed && longer(d.RetryAfterMicros, longest) {
			longest = d.RetryAfterMicros
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

// problem is the problem details of a rejection (RFC 9457).
func (w *Writer) problem(limits []Limit, retrySeconds int64, status uint32) string {
	start := len(w.buf)
	w.buf = append(w.buf, exceeded...)
	w.buf = strconv.AppendUint(w.buf, uint64(status), 10)
	w.buf = append(w.buf, `,"detail":"`...)
	w.addDetail(limits, retrySeconds, (*Label).jsonName)
	w.buf = append(w.buf, `","violated-policies":["`...)
	w.addNames(limits, `","`, (*Label).jsonName)
	w.buf = append(w.buf, `"]}`...)
	return text.View(w.buf[start:])
}

// detail is the text for a gRPC client.
func (w *Writer) detail(limits []Limit, retrySeconds int64) string {
	start := len(w.buf)
	w.addDetail(limits, retrySeconds, (*Label).name)
	return text.View(w.buf[start:])
}

func (p *Label) name() string     { return p.Name }
func (p *Label) jsonName() string { return p.json }

// addDetail writes the sentences that explain the rejection.
func (w *Writer) addDetail(limits []Limit, retrySeconds int64, name func(*Label) string) {
	w.buf = append(w.buf, "Limit exceeded: "...)
	w.addNames(limits, ", ", name)
	if retrySeconds == 0 {
		w.buf = append(w.buf, ". The request costs more than can be allowed at once, so waiting does not help."...)
		return
	}
	w.buf = append(w.buf, ". "...)
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

// addNames writes the names of the rejecting limits.
func (w *Writer) addNames(limits []Limit, separator string, name func(*Label) string) {
	first := true
	for i := range limits {
		if limits[i].Decision.Allowed || limits[i].Blocked {
			continue
		}
		if !first {
			w.buf = append(w.buf, separator...)
		}
		first = false
		w.buf = append(w.buf, name(limits[i].Label)...)
	}
}
