package scenario

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Request is the request of a client, or the one that an upstream gets.
type Request struct {
	Method, Path string
	Headers      [][2]string // "host" is where others have :authority
}

// Answer is what becomes of a request.
type Answer struct {
	Status  int    // 0: the request waits
	Outcome string // the filter state for access logs
	Headers [][2]string
	Body    string // of Sluice's own answers
	// Upstream is the request that came through; nil: none did.
	Upstream *Request
	// Rejected is the filter state that says which limit did it, and Sent how many messages Redis got;
	// both without Envoy alone.
	Rejected string
	Sent     int
}

// split splits a line at blanks, but for those in quotes.
func split(line string) (words []string, err error) {
	for line = strings.TrimLeft(line, " "); line != ""; line = strings.TrimLeft(line, " ") {
		end := strings.IndexAny(line, " \"")
		switch {
		case end < 0:
			end = len(line)
		case line[end] == '"' && (end == 0 || line[end-1] == ':'):
			quoted, err := strconv.QuotedPrefix(line[end:])
			if err != nil {
				return nil, fmt.Errorf("%s: %w", line, err)
			}
			text, err := strconv.Unquote(quoted)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", line, err)
			}
			words = append(words, line[:end]+text)
			line = line[end+len(quoted):]
			continue
		case line[end] == '"': // one in the middle of a word
			if end = strings.IndexByte(line, ' '); end < 0 {
				end = len(line)
			}
		}
		words = append(words, line[:end])
		line = line[end:]
	}
	return words, nil
}

// parseRequest reads "METHOD PATH name:value ...".
func parseRequest(line string) (r Request, err error) {
	words, err := split(line)
	if err != nil {
		return r, err
	}
	if len(words) < 2 {
		return r, fmt.Errorf("%q: want a method and a path", line)
	}
	r.Method, r.Path = words[0], words[1]
	r.Headers, err = parseHeaders(words[2:])
	return r, err
}

// parseAnswer reads "STATUS name:value ...".
func parseAnswer(line string) (a Answer, err error) {
	words, err := split(line)
	if err != nil {
		return a, err
	}
	if len(words) == 0 {
		return a, errors.New("want a status")
	}
	if a.Status, err = strconv.Atoi(words[0]); err != nil {
		return a, err
	}
	a.Headers, err = parseHeaders(words[1:])
	return a, err
}

func parseHeaders(words []string) (headers [][2]string, err error) {
	for _, word := range words {
		name, value, ok := strings.Cut(word, ":")
		if !ok {
			return nil, fmt.Errorf("%q: want name:value", word)
		}
		headers = append(headers, [2]string{name, value})
	}
	return headers, nil
}

// line is the request as parseRequest reads it, with the host and what a client or the limiter has set.
func (r *Request) line() string {
	words := []string{r.Method, r.Path}
	for _, h := range sorted(r.Headers, []string{"host"}) {
		if !slices.Contains(byEnvoy, h[0]) {
			words = append(words, h[0]+":"+quote(h[1]))
		}
	}
	return strings.Join(words, " ")
}

// byEnvoy are header fields that Envoy and the upstream's server set.
var byEnvoy = []string{
	"date", "server", "content-length", "x-envoy-upstream-service-time", "x-request-id", "x-forwarded-proto",
	"x-envoy-expected-rq-timeout-ms", "x-forwarded-for", "x-envoy-external-address",
}

// sorted are header fields with some first, and the others by their names.
func sorted(headers [][2]string, first []string) [][2]string {
	rank := func(name string) int { return (slices.Index(first, name) + len(first) + 1) % (len(first) + 1) }
	all := slices.Clone(headers)
	slices.SortStableFunc(all, func(a, b [2]string) int {
		return cmp.Or(rank(a[0])-rank(b[0]), strings.Compare(a[0], b[0]))
	})
	return all
}

// quote quotes what has blanks.
func quote(value string) string {
	if value == "" || strings.ContainsAny(value, " \t") {
		return strconv.Quote(value)
	}
	return value
}

// ours are the header fields of nearly every answer.
var ours = []string{
	"x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset", "ratelimit-policy", "ratelimit", "retry-after",
}

// String is the answer as scenarios show it.
func (a *Answer) String() string {
	if a.Status == 0 {
		return "waits"
	}
	words := []string{strconv.Itoa(a.Status), a.Outcome}
	for _, h := range sorted(a.Headers, ours) {
		switch name, value := h[0], h[1]; {
		case strings.HasPrefix(name, "ratelimit"):
			words = append(words, strings.TrimPrefix(name, "ratelimit-")+"="+strings.ReplaceAll(value, ", ", ","))
		case slices.Contains(ours, name):
			words = append(words, strings.TrimPrefix(name, "x-ratelimit-")+"="+value)
		case slices.Contains(byEnvoy, name), name == "content-type" && value == "application/problem+json":
		default:
			words = append(words, name+":"+quote(value))
		}
	}
	return strings.Join(words, " ")
}

// show writes the answer, and what else is to be shown of it.
func (a *Answer) show(out *strings.Builder, what []string) {
	fmt.Fprintln(out, a)
	if a.Body != "" && slices.Contains(what, "body") {
		fmt.Fprintln(out, "  "+a.Body)
	}
	if a.Upstream != nil && slices.Contains(what, "upstream") {
		fmt.Fprintln(out, "  upstream: "+a.Upstream.line())
	}
	if a.Rejected != "" && slices.Contains(what, "rejected") {
		fmt.Fprintln(out, "  rejected: "+a.Rejected)
	}
	if slices.Contains(what, "sent") {
		fmt.Fprintln(out, "  sent:", a.Sent)
	}
}
