package config

import "strings"

func response(o object) *Response {
	v, ok := o.field("response")
	if !ok {
		return nil
	}
	res := &Response{Status: 429}
	o, ok = v.object("status", "content_type", "body", "headers")
	if !ok {
		return res
	}
	status := int64(res.Status)
	o.readWhole("status", &status, 400, 599)
	res.Status = uint32(status)
	if v, ok := o.field("content_type"); ok {
		if t, ok := v.nonEmpty(`a media type such as "application/json"`); ok {
			v.checkHeaderValue(t)
			res.ContentType = t
		}
	}
	o.readText("body", &res.Body)
	res.HasBody = o.has("body")
	if v, ok := o.field("headers"); ok {
		res.Headers = responseHeaders(v)
	}
	return res
}

// reserved are the headers of an answer that have another author.
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

func responseHeaders(v value) [][2]string {
	fields, _ := v.entries(`an object (want one such as {"x-reason": "quota"})`)
	var headers [][2]string
	seen := map[string]bool{}
	for _, field := range fields {
		name := strings.ToLower(field.name)
		text, ok := field.text()
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
			field.mistake("appears twice, as header names know no case (want it once)")
		}
		seen[name] = true
		headers = append(headers, [2]string{name, text})
	}
	return headers
}

// checkHeaderValue reports control characters: with a line break a value could
// end its header (RFC 9110 section 5.5).
func (v value) checkHeaderValue(text string) {
	for _, c := range []byte(text) {
		if c < ' ' && c != '\t' || c == 0x7f {
			v.mistake("%s holds a control character (want none)", v.shown())
			return
		}
	}
}

func headers(o object) Headers {
	h := Headers{XRateLimit: true}
	if v, ok := o.field("headers"); ok {
		h.XRateLimit = false
		elements, _ := v.list(`some of "x-ratelimit" and "draft", or [] for none`)
		for _, element := range elements {
			h.add(element)
		}
	}
	h.ResetUnix = o.readChoice("reset", "delta", "unix") == 1
	return h
}

func (h *Headers) add(element value) {
	family, ok := element.choice("x-ratelimit", "draft")
	if !ok {
		return
	}
	which := [...]*bool{&h.XRateLimit, &h.Draft}[family]
	if *which {
		element.mistake("%s appears twice (want it once)", element.shown())
	}
	*which = true
}
