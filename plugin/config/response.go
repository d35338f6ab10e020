package config

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
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
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
		v.mistake("%s holds a control character (want none)", v.shown())
	}
}

// readSettle reads a rule's "settle".
func readSettle(v value) *Settle {
	o := v.readObject(settleFields)
	s := &Settle{}
	if !o.there {
		return s
	}
	if !o.has("status") && !o.has("expr") && !o.has("cost") {
		o.mistake(`nothing to settle by (want "status", "expr" or "cost")`)
	}
	if o.has("status") && o.has("expr") {
		o.mistake(`"status" and "expr" exclude each other (want at most one)`)
	}
	seen := map[string]bool{}
	for _, element := range o.list("status") {
		text, ok := element.readText()
		if !ok {
			continue
		}
		first, last, isRange := strings.Cut(text, "-")
		r := StatusRange{parseStatus(first), parseStatus(last)}
		if !isRange {
			r.Last = r.First
		}
		if len(text) == 3 && strings.HasSuffix(text, "xx") && text[0] >= '1' && text[0] <= '5' {
			r.First = int(text[0]-'0') * 100
			r.Last = r.First + 99
		}
		switch {
		case r.First == 0 || r.Last == 0:
			element.mistake(`%s is not a status (want one such as "401", "4xx", "500-599")`, element.shown())
		case r.First > r.Last:
			element.mistake("%s ends before it begins (want \"%d-%d\")", element.shown(), r.Last, r.First)
		case seen[text]:
			element.mistake("%s appears twice (want it once)", element.shown())
		}
		seen[text] = true
		s.Status = append(s.Status, r)
	}
	s.Expr = get(o, "expr", readCondition)
	if o.has("cost") {
		cost := o.object("cost")
		s.Cost = &SettleCost{}
		s.Cost.readSource(cost)
		s.Cost.Per, s.Cost.Max = cost.number("per"), cost.number("max")
	}
	missing, ok := o.field("missing")
	switch {
	case !ok || missing.json.Type == gjson.String:
		s.Release = o.is("missing")
	case !missing.json.IsObject():
		missing.mistake(`%s is no word and no cost (want "keep", "release" or {"cost": 5})`, missing.shown())
	default:
		s.MissingCost = missing.readObject(missingFields).number("cost")
		if !o.has("cost") {
			missing.mistake(
				`a cost is for answers without the one that "settle" reads, which has no "cost" (want "keep" or "release")`,
			)
		}
	}
	return s
}

// parseStatus reads a status code from 100 to 599; 0 if it is none.
func parseStatus(text string) int {
	status, err := strconv.Atoi(text)
	if err != nil || len(text) != 3 || status < 100 || status > 599 {
		return 0
	}
	return status
}
