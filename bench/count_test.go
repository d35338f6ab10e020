package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestDumped reads what callgrind writes: a file for each dump and thread.
func TestDumped(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"callgrind.7":      "version: 1\n",
		"callgrind.7.1-01": "version: 1\nevents: Ir\nfn=(1) a\n12 300\ntotals: 1000\n",
		"callgrind.7.1-02": "version: 1\nsummary: 31000\n",
		"callgrind.7.2-01": "totals: 9\n",
		"callgrind.8.1-01": "events: Ir\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := dumped(dir, 7); err != nil || !slices.Equal(got, []int64{1000, 31000}) {
		t.Errorf("%v, %v; want 1000 and 31000", got, err)
	}
	for pid, want := range map[int]string{8: "has no sum", 9: "has written nothing"} {
		if _, err := dumped(dir, pid); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("process %d: %v, want one that %s", pid, err, want)
		}
	}
}

// TestAgainst: what the machine changes in both setups is no change of the usual request.
func TestAgainst(t *testing.T) {
	t.Parallel()
	tallied := func(none, usual int64) tally {
		return tally{Setups: map[string]counted{unlimited: {Envoy: none}, sluice: {Envoy: usual}}}
	}
	recorded := tallied(160_000, 272_000)
	for _, c := range []struct {
		what string
		now  tally
		want string
	}{
		{"the same", tallied(160_000, 272_000), "right"},
		{"0.9 % more", tallied(160_000, 274_448), "right"},
		{"another machine", tallied(170_000, 289_000), "right"},
		{"1.1 % more", tallied(160_000, 274_992), "that is +1.1 %"},
		{"1.1 % less", tallied(160_000, 269_008), "that is -1.1 %"},
		{"nothing counted", tallied(0, 0), "that is +NaN %"},
	} {
		said := "right"
		if err := c.now.against(recorded); err != nil {
			said = err.Error()
		}
		testenv.Same(t, c.what, strings.HasPrefix(said, c.want), true)
	}
}

// TestCounts: what is recorded is what the documents say and "make count-check" needs.
func TestCounts(t *testing.T) {
	t.Parallel()
	recorded, err := readCounts(testenv.Root(t))
	if err != nil {
		t.Fatal(err)
	}
	direct, through := recorded.Setups[sluice].Sum(), recorded.Setups[relayed].Sum()
	testenv.Within(t, "a request through a relay, as a multiple of a direct one", float64(through)/float64(direct), 1, 1.3)
	for _, id := range []string{unlimited, sluice} { // what "make count-check" needs
		testenv.Same(t, "that there is a count of "+id, recorded.Setups[id].Envoy > 0, true)
	}
}

// TestCountedSetups: setups are counted in the order of a run, and those that are only timed when they
// are named.
func TestCountedSetups(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ names, want string }{
		{"sluice-relay,none", "none,sluice-relay"},
		{"local-ratelimit,nope", "local-ratelimit"},
		{
			"all", "none,sluice,sluice-readme,sluice-demo,sluice-readme-match,sluice-2-limits,sluice-3-limits,sluice-levels," +
				"sluice-over,sluice-leased,sluice-embedded,sluice-settled," +
				"ratelimit,ratelimit-2-limits,ratelimit-2-limits-stop,wasm-empty,sluice-denied," +
				"ratelimit-denied,wasm-denied,sluice-without-metrics,sluice-relay",
		},
	} {
		var ids []string
		for _, s := range countedSetups(strings.Split(c.names, ",")) {
			ids = append(ids, s.ID)
		}
		testenv.Same(t, c.names, strings.Join(ids, ","), c.want)
	}
	err := runCount(t.Context(), "..", options{count: "nope,sluice"})
	testenv.Same(t, "that unknown setups are refused", err != nil && strings.Contains(err.Error(), "unknown setups"), true)
}
