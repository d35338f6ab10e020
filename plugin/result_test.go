package main

import (
	"regexp"
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

	Limit, Remaining, Reset int      // X-RateLimit-Limit and so on; without a Limit there is none of them
	Draft                   []member // RateLimit-Policy and RateLimit
	RetryAfter              int      // Retry-After; 0: there is none

	ContentType string         // of Sluice's own answer, unless it is application/problem+json
	Others      wasmhost.Pairs // all other headers, in order
}

// member is one limit in RateLimit-Policy ("name";q=3;w=3600) and in RateLimit
// ("name";r=2;t=60), where T is 0 without one.
type member struct {
	Name       string
	Q, W, R, T int
}

// resultOf reads an answer. The headers that it knows must be well formed, and
// there once.
func resultOf(t *testing.T, status int, outcome string, headers wasmhost.Pairs) result {
	t.Helper()
	r := result{Status: status, Outcome: outcome}
	var policies, limits []member
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
		case "ratelimit-policy":
			policies = members(t, policyMember, value)
		case "ratelimit":
			limits = members(t, limitMember, value)
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
	r.Draft = merged(t, policies, limits)
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

var (
	policyMember = regexp.MustCompile(`^"([^"]*)";q=(\d+);w=(\d+)(?:, |$)`)
	limitMember  = regexp.MustCompile(`^"([^"]*)";r=(\d+)(?:;t=(\d+))?(?:, |$)`)
)

// members reads a list of members, each with two numbers, which are put into Q and
// W, or for limitMember into R and T.
func members(t *testing.T, syntax *regexp.Regexp, list string) (all []member) {
	t.Helper()
	for rest := list; rest != ""; {
		found := syntax.FindStringSubmatch(rest)
		if found == nil {
			t.Errorf("malformed list %s", list)
			return all
		}
		a, b := whole(t, list, found[2]), 0
		if found[3] != "" {
			b = whole(t, list, found[3])
		}
		if syntax == policyMember {
			all = append(all, member{Name: found[1], Q: a, W: b})
		} else {
			all = append(all, member{Name: found[1], R: a, T: b})
		}
		rest = rest[len(found[0]):]
	}
	return all
}

// merged is both lists in one; they must have the same names in the same order.
func merged(t *testing.T, policies, limits []member) []member {
	t.Helper()
	if len(policies) != len(limits) {
		t.Errorf("ratelimit-policy has the members %v, ratelimit %v", policies, limits)
		return policies
	}
	for i := range policies {
		if policies[i].Name != limits[i].Name {
			t.Errorf("member %d is %q in ratelimit-policy, %q in ratelimit", i, policies[i].Name, limits[i].Name)
		}
		policies[i].R, policies[i].T = limits[i].R, limits[i].T
	}
	return policies
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
	testenv.Same(w.t, what+": number of members in ratelimit", len(got.Draft), len(want.Draft))
	for i := range min(len(got.Draft), len(want.Draft)) {
		g, m := got.Draft[i], want.Draft[i]
		at := what + ": ratelimit " + strconv.Quote(m.Name)
		testenv.Same(w.t, at+": name", g.Name, m.Name)
		testenv.Same(w.t, at+": q", g.Q, m.Q)
		testenv.Same(w.t, at+": w", g.W, m.W)
		testenv.Same(w.t, at+": r", g.R, m.R)
		w.sameSeconds(at+": t", g.T, m.T)
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
