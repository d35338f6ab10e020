package wasmhost

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// LocalResponse is an answer of the guest's own, as the guest gave it. What the
// client gets of it is in the stream's Downstream.
type LocalResponse struct {
	Status     uint32
	Details    string // response code details, white space replaced by "_" as in Envoy
	Body       string
	Headers    Pairs
	GRPCStatus int32 // outside 0 to 16: none
}

const maxGRPCStatus = 16

// SendLocalResponse is proxy_send_local_response, with the headers as the ABI has
// them. It sends the response when the callback has returned, and holds the
// request there whatever the callback returns. In a plugin context it does
// nothing.
func (c Caller) SendLocalResponse(status uint32, details, body string, headers []byte, grpcStatus int32) Status {
	c.h.stopped = true
	if c.stream == nil {
		return StatusOK
	}
	r := &LocalResponse{
		Status:     status,
		Details:    strings.Map(spaceToUnderscore, details),
		Body:       body,
		Headers:    unmarshal(headers),
		GRPCStatus: grpcStatus,
	}
	s := c.stream
	c.h.later(func() { s.respond(r) })
	return StatusOK
}

func spaceToUnderscore(r rune) rune {
	if unicode.IsSpace(r) {
		return '_'
	}
	return r
}

// respond is Envoy's sendLocalReply. A response that has not begun goes through
// the filter like the upstream's; one that waits in the filter is replaced
// behind it; one that the client has headers of can only be cut off.
func (s *Stream) respond(r *LocalResponse) {
	switch {
	case s.ended || s.Reset:
	case s.Local != nil:
		s.host.fail("a second local response on one stream")
	case s.Downstream.Headers != nil:
		s.Reset = true
	case s.response.headers != nil:
		s.Local = r
		s.response.headers = r.headers(s.request.headers)
		s.Downstream = Message{Headers: s.response.headers, Body: r.body(s.request.headers), Ended: true}
	default:
		s.Local = r
		body := r.body(s.request.headers)
		s.response.pushHeaders(r.headers(s.request.headers), len(body) == 0)
		if len(body) > 0 {
			s.response.pushBody(body, true)
		}
	}
}

// headers is Envoy's Utility::prepareLocalReply. To a gRPC request the response
// consists of trailers only, which are its headers.
func (r *LocalResponse) headers(request Pairs) Pairs {
	h := Pairs{{":status", strconv.Itoa(int(r.Status))}}
	for _, pair := range r.Headers {
		h.add(pair[0], pair[1])
	}
	if isGRPC(request) {
		return r.grpcHeaders(h)
	}
	if r.Body == "" {
		h.remove("content-length")
		h.remove("content-type")
		return h
	}
	h.set("content-length", strconv.Itoa(len(r.Body)))
	if _, ok := h.Get("content-type"); !ok {
		h.add("content-type", "text/plain")
	}
	return h
}

func (r *LocalResponse) grpcHeaders(h Pairs) Pairs {
	h[0][1] = "200" // the status is the first
	h.set("content-type", "application/grpc")
	if _, ok := h.Get("grpc-status"); !ok {
		status := r.GRPCStatus
		if status < 0 || status > maxGRPCStatus {
			status = cmp.Or(httpToGRPC[r.Status], int32(GRPCUnknown))
		}
		h.add("grpc-status", strconv.Itoa(int(status)))
	}
	if r.Body != "" {
		h.set("grpc-message", percentEncode(r.Body))
	}
	h.remove("content-length")
	return h
}

// body is the part after the headers: none for HEAD and for gRPC.
func (r *LocalResponse) body(request Pairs) []byte {
	if method, _ := request.Get(":method"); method == "HEAD" || isGRPC(request) {
		return nil
	}
	return []byte(r.Body)
}

// isGRPC is Envoy's Grpc::Common::hasGrpcContentType.
func isGRPC(request Pairs) bool {
	contentType, _ := request.Get("content-type")
	suffix, ok := strings.CutPrefix(contentType, "application/grpc")
	return ok && (suffix == "" || suffix[0] == '+' || suffix[0] == ';')
}

// httpToGRPC: https://github.com/grpc/grpc/blob/master/doc/http-grpc-status-mapping.md
var httpToGRPC = map[uint32]int32{
	400: 13,                            // internal
	401: 16,                            // unauthenticated
	403: 7,                             // permission denied
	404: 12,                            // unimplemented
	429: 14, 502: 14, 503: 14, 504: 14, // unavailable
}

// percentEncode is how gRPC writes a grpc-message:
// https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md#responses
func percentEncode(s string) string {
	var b strings.Builder
	for _, ch := range []byte(s) {
		if ch < ' ' || ch > '~' || ch == '%' {
			fmt.Fprintf(&b, "%%%02X", ch)
		} else {
			b.WriteByte(ch)
		}
	}
	return b.String()
}
