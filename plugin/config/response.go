package config

import (
	"slices"
	"strconv"
	"strings"
)

func readResponse(v value) *Response {
	o := v.readObject(responseFields)
	res := &Response{Status: uint32(o.number("status"))}
	res.ContentType = get(o, "content_type", readContentType)
	res.Body, res.HasBody = o.text("body"), o.has("body")
	res.Headers = get(o, "headers", readResponseHeaders)
	return res
}

func readContentType(v value) string {
	t, _ := v.readNonEmpty(`a media type such as "application/json"`)
	v.checkHeaderValue(t)
	return t
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

func readResponseHeaders(v value) [][2]string {
	fields, _ := v.readEntries(`an object (want one such as {"x-reason": "quota"})`)
	return readHeaderFields(fields, strings.ToLower, func(field entry, name string) {
		for _, group := range reserved {
			if slices.Contains(group[1:], name) {
				field.mistake("not a header to add (%s)", group[0])
			}
		}
	})
}

// readHeaderFields reads the headers of an object, with names in lower case. Names that are the
// same by one function appear twice, and another checks each.
func readHeaderFields(
	fields []entry, same func(name string) string, check func(field entry, name string),
) (headers [][2]string) {
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
		check(field, name)
		if seen[same(name)] {
			field.mistake("appears twice, because header names are case-insensitive (want it once)")
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

func readHeaders(o object) Headers {
	h := Headers{XRateLimit: true}
	if v, ok := o.field("headers"); ok {
		h.XRateLimit = false
		elements, _ := v.readList(`some of "x-ratelimit" and "draft", or [] for none`)
		for _, element := range elements {
			h.add(element)
		}
	}
	h.ResetUnix = o.is("reset")
	return h
}

func (h *Headers) add(element value) {
	place, ok := element.readWord(families)
	if !ok {
		return
	}
	family := []*bool{&h.XRateLimit, &h.Draft}[place]
	if *family {
		element.mistake("%s appears twice (want it once)", element.shown())
	}
	*family = true
}

// readPercentage reads "10%" as 10.
func readPercentage(v value) int64 {
	text, ok := v.readText()
	if !ok {
		return 0
	}
	digits, isPercent := strings.CutSuffix(text, "%")
	percent, err := strconv.ParseInt(digits, 10, 64)
	if !isPercent || err != nil || percent < 0 || percent > 100 || strconv.FormatInt(percent, 10) != digits {
		v.mistake(`%s is not a percentage (want one such as "10%%", at most "100%%")`, v.shown())
		return 0
	}
	return percent
}
