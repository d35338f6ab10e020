package e2e

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// scenario is some rules and what they do to requests, one after the other, see the
// package's documentation.
type scenario struct {
	name  string
	rules string // JSON, the elements of "rules"
	steps []step
	keys  []string // all that Redis then has of it, but for the prefix "rl:{" and the name
}

// step is a request and its wanted result.
type step struct {
	request
	want want
}

// request is the request of a client.
type request struct {
	path    string   // after the scenario's name
	headers []string // "name: value", see get
}

// want is the wanted result of a request. Empty fields are not compared.
type want struct {
	Status  int    // 200 unless stated
	Outcome string // the filter state wasm.sluice

	Limit, Remaining, Reset string // X-RateLimit-*
	RetryAfter              string
	Policy, RateLimit       string // RateLimit-Policy and RateLimit
}

// missing wants that a header is not there.
const missing = "(missing)"

// headers is the wanted headers by name.
func (w *want) headers() map[string]string {
	return map[string]string{
		"x-ratelimit-limit":     w.Limit,
		"x-ratelimit-remaining": w.Remaining,
		"x-ratelimit-reset":     w.Reset,
		"retry-after":           w.RetryAfter,
		"ratelimit-policy":      w.Policy,
		"ratelimit":             w.RateLimit,
	}
}

// runScenarios plays scenarios in one Envoy, twice: with Redis, and with the
// embedded store, which works the same. options are the other members of the
// plugin's configuration, each followed by a comma.
func runScenarios(t *testing.T, options string, opts envoytest.Options, scenarios []scenario) {
	t.Helper()
	var rules []string
	for i, s := range scenarios {
		rules = append(rules, s.rules)
		for j, other := range scenarios {
			if i != j && strings.HasPrefix(other.name, s.name) {
				t.Fatalf("the paths of %s begin like those of %s", other.name, s.name)
			}
		}
	}
	all := options + `"rules": [` + strings.Join(rules, ",\n") + `]}`
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		e := start(t, `{`+patient+all, opts)
		for _, s := range scenarios {
			t.Run(s.name, func(t *testing.T) { s.play(t, e) })
		}
	})
	t.Run("local", func(t *testing.T) {
		t.Parallel()
		opts.Redis = []string{}
		e := start(t, `{`+all, opts)
		for _, s := range scenarios {
			t.Run(s.name, func(t *testing.T) { s.play(t, e) })
		}
	})
}

// play sends the requests and compares.
func (s *scenario) play(t *testing.T, e *setting) {
	t.Helper()
	for i := range s.steps {
		step := &s.steps[i]
		r := get(t, e.URL+"/"+s.name+step.path, step.headers...)
		if status := max(step.want.Status, http.StatusOK); r.status != status {
			t.Errorf("step %d: status %d, want %d: %s", i, r.status, status, r.body)
		}
		for name, value := range step.want.headers() {
			got := strings.Join(r.header.Values(name), " & ")
			switch {
			case value == missing && got != "":
				t.Errorf("step %d: %s: %q, want none", i, name, got)
			case value != missing && value != "" && got != value:
				t.Errorf("step %d: %s: %q, want %q", i, name, got, value)
			}
		}
	}
	s.compareOutcomes(t, e)
	if e.client != nil && s.keys != nil {
		s.compareKeys(t, e)
	}
}

// compareOutcomes reads the access log.
func (s *scenario) compareOutcomes(t *testing.T, e *setting) {
	t.Helper()
	var entries []envoytest.Entry
	testenv.Wait(t, patience, func() error {
		entries = e.AccessLog()
		entries = slices.DeleteFunc(entries, func(entry envoytest.Entry) bool { return !s.owns(entry.Path) })
		return atLeast(len(entries), len(s.steps), "access log entries")
	})
	for i := range s.steps {
		if outcome := s.steps[i].want.Outcome; outcome != "" && entries[i].State != outcome {
			t.Errorf("step %d: filter state %q, want %q", i, entries[i].State, outcome)
		}
	}
}

// owns reports whether a path is one of the scenario's.
func (s *scenario) owns(path string) bool {
	rest, ok := strings.CutPrefix(path, "/"+s.name)
	return ok && (rest == "" || strings.ContainsAny(rest[:1], "/?"))
}

func (s *scenario) compareKeys(t *testing.T, e *setting) {
	t.Helper()
	var got []string
	for _, key := range e.keys(t) {
		if rest, ok := strings.CutPrefix(key, "rl:{"+s.name); ok && strings.ContainsAny(rest[:1], "|.") {
			got = append(got, rest)
		}
	}
	want := slices.Sorted(slices.Values(s.keys))
	if !slices.Equal(got, want) {
		t.Errorf("Redis has the keys\n%q, want\n%q (after %q)", got, want, "rl:{"+s.name)
	}
}
