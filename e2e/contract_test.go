package e2e

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// scenario is some rules and what they do to requests, one after the other. An
// "@" in it stands for its name, which sets its rules, paths and keys apart from
// those of other scenarios in the same Envoy.
type scenario struct {
	name  string
	rules string // JSON, the elements of "rules"
	steps []step
	keys  []string // all that Redis then has of it, but for the prefix "rl:{@"
}

// step is a request and what is wanted of it.
type step struct {
	path    string // after "/@"
	headers []string
	status  int    // 200 unless set
	state   string // the filter state wasm.sluice; any unless set
	// want are headers of the answer; "" wants none of that name.
	want map[string]string
}

func (s *scenario) fill(text string) string { return strings.ReplaceAll(text, "@", s.name) }

// runScenarios plays scenarios in one Envoy, twice: with Redis, and with the
// embedded store, which works the same. options are the other members of the
// plugin's configuration, each followed by a comma.
func runScenarios(t *testing.T, options string, opts envoytest.Options, scenarios []scenario) {
	t.Helper()
	var rules []string
	for i, s := range scenarios {
		rules = append(rules, s.fill(s.rules))
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
		if want := max(step.status, http.StatusOK); r.status != want {
			t.Errorf("step %d: status %d, want %d: %s", i, r.status, want, r.body)
		}
		for name, want := range step.want {
			if got := strings.Join(r.header.Values(name), " & "); got != s.fill(want) {
				t.Errorf("step %d: %s: %q, want %q", i, name, got, s.fill(want))
			}
		}
	}
	s.compareStates(t, e)
	if e.client != nil && s.keys != nil {
		s.compareKeys(t, e)
	}
}

// compareStates reads the access log.
func (s *scenario) compareStates(t *testing.T, e *setting) {
	t.Helper()
	var entries []envoytest.Entry
	testenv.Wait(t, patience, func() error {
		entries = e.AccessLog()
		entries = slices.DeleteFunc(entries, func(entry envoytest.Entry) bool { return !s.owns(entry.Path) })
		return atLeast(len(entries), len(s.steps), "access log entries")
	})
	for i := range s.steps {
		if want := s.fill(s.steps[i].state); want != "" && entries[i].State != want {
			t.Errorf("step %d: filter state %q, want %q", i, entries[i].State, want)
		}
	}
}

// owns says whether a path is one of the scenario's.
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
