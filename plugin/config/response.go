package config

import (
	"strconv"
	"strings"
)

func readResponse(o object) *Response {
	v, ok := o.field("response")
	if !ok {
		return nil
	}
	res := &Response{Status: 429}
	o, ok = v.readObject("status", "content_type", "body", "headers")
	if !ok {
		return res
	}
	status := int64(res.Status)
	o.readWholeField("status", &status, 400, 599)
	res.Status = uint32(status)
	if v, ok := o.field("content_type"); ok {
		if t, ok := v.readNonEmpty(`a media type such as "application/json"`); ok {
			v.checkHeaderValue(t)
			res.ContentType = t
		}
	}
	o.readTextField("body", &res.Body)
	res.HasBody = o.has("body")
	if v, ok := o.field("headers"); ok {
		res.Headers = readResponseHeaders(v)
	}
	return res
}

// reserved are the headers of an answer that have another author, and what to do
// instead.
var reserved = map[string]string{
	"content-length":        "Envoy writes it",
	"transfer-encoding":     "Envoy writes it",
	"connection":            "Envoy writes it",
	"keep-alive":            "Envoy writes it",
	"proxy-connection":      "Envoy writes it",
	"upgrade":               "Envoy writes it",
	"te":                    "Envoy writes it",
	"trailer":               "Envoy writes it",
	"grpc-status":           "gRPC requests are answered as gRPC by themselves",
	"grpc-message":          "gRPC requests are answered as gRPC by themselves",
	"content-type":          `use "content_type"`,
	"retry-after":           "Sluice writes it",
	"x-ratelimit-limit":     `Sluice writes it; see "headers" of the configuration`,
	"x-ratelimit-remaining": `Sluice writes it; see "headers" of the configuration`,
	"x-ratelimit-reset":     `Sluice writes it; see "headers" of the configuration`,
	"ratelimit":             `Sluice writes it; see "headers" of the configuration`,
	"ratelimit-policy":      `Sluice writes it; see "headers" of the configuration`,
}

func readResponseHeaders(v value) [][2]string {
	fields, _ := v.readEntries(`an object (want one such as {"x-reason": "quota"})`)
	var headers [][2]string
	seen := map[string]bool{}
	for _, field := range fields {
		name := strings.ToLower(field.name)
		text, ok := field.readText()
		if ok {
			field.checkHeaderValue(text)
		}
		if !field.checkHeaderName(field.name) {
			continue
		}
		if why, is := reserved[name]; is {
			field.mistake("not a header to add (%s)", why)
		}
		if seen[name] {
			field.mistake("appears twice, because header names are case-insensitive (want it once)")
		}
		seen[name] = true
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
	readWordField(o, "reset", resets, &h.ResetUnix)
	return h
}

// family is one of the families of rate limit headers.
type family uint8

const (
	xRateLimit family = iota
	draft
)

var families = words[family]{
	{xRateLimit, "x-ratelimit"},
	{draft, "draft"},
}

// resets say whether X-RateLimit-Reset is a Unix time.
var resets = words[bool]{
	{false, "delta"},
	{true, "unix"},
}

func (h *Headers) add(element value) {
	f, ok := readWord(element, families)
	if !ok {
		return
	}
	if h.has(f) {
		element.mistake("%s appears twice (want it once)", element.shown())
	}
	switch f {
	case xRateLimit:
		h.XRateLimit = true
	case draft:
		h.Draft = true
	}
}

func (h *Headers) has(f family) bool {
	return f == xRateLimit && h.XRateLimit || f == draft && h.Draft
}

// readRetryJitter reads "10%" as 10; absent it is 0.
func readRetryJitter(o object) int64 {
	v, ok := o.field("retry_jitter")
	if !ok {
		return 0
	}
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
