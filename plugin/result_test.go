package main

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/internal/wasmhost"
)

// result tells what became of a request: what the client gets, and what the access
// log says. Tests state the one they want, and expect compares field by field;
// what a test does not state must not be there.
type result struct {
	Status  int    // 0: the request waits
	Outcome string // the filter state for access logs

	Limit, Remaining, Reset int // X-RateLimit-Limit and so on; without a Limit there is none of them
	RetryAfter              int // Retry-After; 0: there is none

	ContentType string         // of Sluice's own answer, unless it is application/problem+json
	Others      wasmhost.Pairs // all other headers, in order
}

// resultOf reads an answer. The headers that it knows must be well formed, and
// there once.
func resultOf(t *testing.T, status int, outcome string, headers wasmhost.Pairs) result {
	t.Helper()
	r := result{Status: status, Outcome: outcome}
	seen := map[string]bool{}
	for _, h := range headers {
		name, value := h[0], h[1]
		switch name {
		case "x-ratelimit-limit":
			r.Limit = whole(t, name, value)
		case "x-ratelimit-remaining":
			r.Remaining = whole(t, name, value)
		case "x-ratelimit-reset":
			r.Reset = whole(t, name, value)
		case "retry-after":
			if r.RetryAfter = whole(t, name, value); r.RetryAfter == 0 {
				t.Error("retry-after is 0")
			}
		case "content-type":
			r.ContentType = value
		default:
			r.Others = append(r.Others, h)
			continue
		}
		if seen[name] {
			t.Errorf("%s is there more than once: %q", name, headers)
		}
		seen[name] = true
	}
	for _, name := range []string{"x-ratelimit-remaining", "x-ratelimit-reset"} {
		if seen[name] != seen["x-ratelimit-limit"] {
			t.Errorf("x-ratelimit-limit is there: %v, %s: %v", seen["x-ratelimit-limit"], name, seen[name])
		}
	}
	return r
}

func whole(t *testing.T, name, value string) int {
	t.Helper()
	n, err := strconv.Atoi(value)
	if err != nil {
		t.Errorf("%s: %v", name, err)
	}
	return n
}

const problemJSON = "application/problem+json"

// expect compares what became of a request with what was wanted. Seconds are exact
// where the test's clock decides. A real Redis has its own: there they may be fewer
// by what the test has taken so far.
func (w *worker) expect(what string, got, want result) {
	w.t.Helper()
	if want.ContentType == "" && want.Status >= 400 {
		want.ContentType = problemJSON
	}
	testenv.Same(w.t, what+": status", got.Status, want.Status)
	testenv.Same(w.t, what+": outcome", got.Outcome, want.Outcome)
	testenv.Same(w.t, what+": x-ratelimit-limit", got.Limit, want.Limit)
	testenv.Same(w.t, what+": x-ratelimit-remaining", got.Remaining, want.Remaining)
	w.sameSeconds(what+": x-ratelimit-reset", got.Reset, want.Reset)
	w.sameSeconds(what+": retry-after", got.RetryAfter, want.RetryAfter)
	testenv.Same(w.t, what+": content-type", got.ContentType, want.ContentType)
	if !slices.Equal(got.Others, want.Others) {
		w.t.Errorf("%s: other headers %q, want %q", what, got.Others, want.Others)
	}
}

func (w *worker) sameSeconds(what string, got, want int) {
	w.t.Helper()
	elapsed := 0
	if w.realClock && want > 0 {
		elapsed = int(time.Since(w.began)/time.Second) + 1
	}
	if got > want || got < want-elapsed {
		w.t.Errorf("%s is %d, want %d, less %d at most", what, got, want, elapsed)
	}
}
