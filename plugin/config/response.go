package config

import (
	"slices"
	"strings"
)

func readResponse(v value) *Response {
	o := v.readObject(responseFields)
	res := &Response{Status: uint32(o.number("status")), ContentType: o.text("content_type")}
	if at, ok := o.field("content_type"); ok {
		at.checkHeaderValue(res.ContentType)
	}
	res.Body, res.HasBody = o.text("body"), o.has("body")
	res.Headers = readHeaderFields(o.entries("headers"), strings.ToLower, func(name string) string {
		for _, group := range reserved {
			if slices.Contains(group[1:], name) {
				return "not a header to add (" + group[0] + ")"
			}
		}
		return ""
	})
	return res
}

// reserved are the headers of an answer that have another author, after what to do
// instead.
var reserved = [][]string{
	{
		"Envoy writes it", "content-length", "transfer-encoding", "connection", "keep-alive",
		"proxy-connection", "upgrade", "te", "trailer",
	},
	{"gRPC requests are answered as gRPC by themselves", "grpc-status", "grpc-message"},
	{`use "content_type"`, "content-type"},
	{"Sluice writes it", "retry-after"},
	{
		`Sluice writes it; see "headers" of the configuration`, "x-ratelimit-limit", "x-ratelimit-remaining",
		"x-ratelimit-reset", "ratelimit", "ratelimit-policy",
	},
}

// headerTwice is the mistake of two names of headers that are one.
const headerTwice = "appears twice, because header names are case-insensitive (want it once)"

// readHeaderFields reads the headers of an object, with names in lower case. Names that are the
// same by one function appear twice, and another says what is wrong with a name, if anything is.
func readHeaderFields(fields []entry, same, wrong func(name string) string) (headers [][2]string) {
	seen := map[string]bool{}
	for _, field := range fields {
		text, ok := field.readText()
		if ok {
			field.checkHeaderValue(text)
		}
		if !field.checkHeaderName(field.name) {
			continue
		}
		name := strings.ToLower(field.name)
		if problem := wrong(name); problem != "" {
			field.mistake("%s", problem)
		}
		if seen[same(name)] {
			field.mistake(headerTwice)
		}
		seen[same(name)] = true
		headers = append(headers, [2]string{name, text})
	}
	return headers
}

// checkHeaderValue reports control characters. With a line break a value could
// end its header (RFC 9110 section 5.5).
func (v value) checkHeaderValue(text string) {
	for _, c := range []byte(text) {
		if c < ' ' && c != '\t' || c == 0x7f {
			v.mistake("%s holds a control character (want none)", v.shown())
			return
		}
	}
}
