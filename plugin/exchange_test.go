package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/wasmhost"
)

// exchange is one request and what became of it.
type exchange struct {
	*wasmhost.Stream

	t *testing.T
}

// open brings a request's headers.
func (i *instance) open(headers wasmhost.Pairs) *exchange {
	x := &exchange{Stream: i.NewStream(), t: i.worker.t}
	x.RequestHeaders(headers, true)
	return x
}

// get opens a GET request.
func (i *instance) get(path string, namesAndValues ...string) *exchange {
	return i.open(wasmhost.Request("GET", path, namesAndValues...))
}

// waits says whether the request is paused, with no answer yet.
func (x *exchange) waits() bool { return x.RequestPaused() && x.Local == nil }

// local is the answer in place of the upstream's.
func (x *exchange) local() *wasmhost.LocalResponse {
	x.t.Helper()
	if x.Local == nil {
		x.t.Fatal("the request was not answered")
	}
	return x.Local
}

// outcome is the filter state for access logs.
func (x *exchange) outcome() string { return string(x.FilterState["wasm.sluice"]) }

// respond lets the upstream answer a request that has passed, and returns what
// the client gets, without the status.
func (x *exchange) respond(namesAndValues ...string) wasmhost.Pairs {
	x.t.Helper()
	if x.Upstream.Headers == nil {
		x.t.Fatalf("the request has not passed: %s", x.outcome())
	}
	x.ResponseHeaders(wasmhost.Response("200", namesAndValues...), true)
	return x.Downstream.Headers[1:]
}

// end lets the upstream answer if it was asked, ends the exchange and says in
// one line what became of it:
//
//	200 allowed [x-ratelimit-limit: 2] [x-ratelimit-remaining: 1] [x-ratelimit-reset: 60]
//	429 limited:a [x-ratelimit-limit: 2] ... [retry-after: 60] [content-type: application/problem+json]
func (x *exchange) end() string {
	x.t.Helper()
	defer x.End()
	switch s := x.Stream; {
	case s.Local != nil:
		if want := strings.ReplaceAll(x.outcome(), " ", "_"); s.Local.Details != want {
			x.t.Errorf("response code details %q, want the outcome %q", s.Local.Details, want)
		}
		return fmt.Sprint(s.Local.Status, " ", x.outcome(), bracketed(s.Local.Headers))
	case x.RequestPaused():
		return "waits " + x.outcome()
	}
	return "200 " + x.outcome() + bracketed(x.respond())
}

func bracketed(headers wasmhost.Pairs) string {
	var b strings.Builder
	for _, h := range headers {
		b.WriteString(" [" + h[0] + ": " + h[1] + "]")
	}
	return b.String()
}

// standard is the three x-ratelimit headers in the form of end.
func standard(limit, remaining int, reset string) string {
	return fmt.Sprintf(" [x-ratelimit-limit: %d] [x-ratelimit-remaining: %d] [x-ratelimit-reset: %s]", limit, remaining, reset)
}

// problem is the other headers of a 429, in the form of end.
func problem(retryAfter string) string {
	s := " [content-type: application/problem+json]"
	if retryAfter != "" {
		s = " [retry-after: " + retryAfter + "]" + s
	}
	return s
}

// expect compares what became of a request with what was wanted, in which "~60"
// is a number of seconds on the clock of a real Redis: 60, or less by what the
// test has taken so far.
func (w *worker) expect(what, got, want string) {
	w.t.Helper()
	pattern := "^" + about.ReplaceAllString(regexp.QuoteMeta(want), `(\d+)`) + "$"
	numbers := regexp.MustCompile(pattern).FindStringSubmatch(got)
	if numbers == nil {
		w.t.Errorf("%s:\n got %s\nwant %s", what, got, want)
		return
	}
	elapsed := int(time.Since(w.began)/time.Second) + 1
	for i, m := range about.FindAllStringSubmatch(want, -1) {
		n, err := strconv.Atoi(numbers[i+1])
		most, _ := strconv.Atoi(m[1])
		if err != nil || n > most || n < most-elapsed {
			w.t.Errorf("%s:\n got %s\nwant %s after at most %d seconds", what, got, want, elapsed)
		}
	}
}

var about = regexp.MustCompile(`~(\d+)`)
