package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/cmd/sluice/simulate"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// customers is how many an API has, and requestsOf what each of them sends: 500 send 1 request, 400
// send 5, 90 send 10, 9 send 20, and one sends 100.
const customers = 1000

func requestsOf(n int) int {
	switch {
	case n == 999:
		return 100
	case n >= 990:
		return 20
	case n >= 900:
		return 10
	case n >= 500:
		return 5
	}
	return 1
}

// accessLog has what the customers send, each of them one request a step.
func accessLog(step time.Duration) string {
	var log strings.Builder
	begin := time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)
	for n := range customers {
		for i := range requestsOf(n) {
			at := begin.Add(time.Duration(i)*step + time.Duration(n)*time.Microsecond)
			fmt.Fprintf(&log, "{\"start_time\": %q, \"method\": \"GET\", \"path\": \"/api/x\", \"authority\": \"h\", "+
				"\"x-api-key\": \"k%d\"}\n", at.Format(time.RFC3339Nano), n)
		}
	}
	return log.String()
}

// metered is a rule that a log says the limits of.
func metered(limit int) string {
	return fmt.Sprintf(`{"rules": [
  {"name": "per-key", "key": [{"header": "x-api-key"}], "limits": [
    {"name": "minute", "algorithm": "sliding_window_log", "limit": %d, "window": "1m"},
    {"name": "bucket", "algorithm": "gcra", "limit": 1, "window": "1s", "burst": 10},
    {"name": "day", "algorithm": "fixed_window", "limit": 7, "window": "day"},
    {"name": "flight", "algorithm": "concurrency", "limit": 3}]}]}`, limit)
}

func TestSuggest(t *testing.T) {
	t.Parallel()
	log := write(t, "access.log", accessLog(500*time.Millisecond))
	r := execute(t, metered(5), "suggest", "per-key", "-c", "-", "--log", log, "-o", "json")
	all := decode[struct {
		simulate.Advice
		Rule json.RawMessage
	}](t, r)
	got := all.Limits
	want := []simulate.Suggestion{
		{
			Limit: "minute", Algorithm: "sliding_window_log", Window: "1m", Now: 5, Identities: 1000, P50: 1, P90: 5, P99: 10,
			P999: 20, Max: 100, Suggested: 20,
		},
		// 2 a second arrive. With a burst of ten times the limit, 2 a second admit any number of them.
		{
			Limit: "bucket", Algorithm: "gcra", Window: "1s", Now: 1, Identities: 1000, P50: 1, P90: 1, P99: 1, P999: 2,
			Max: 2, Suggested: 2, Burst: 20,
		},
		{
			Limit: "day", Algorithm: "fixed_window", Window: "day:UTC", Now: 7, Identities: 1000, P50: 1, P90: 5, P99: 10,
			P999: 20, Max: 100, Suggested: 20,
		},
		{
			Limit: "flight", Algorithm: "concurrency", Now: 3, Identities: 1000,
			Why: "a log does not say how long requests are in flight",
		},
	}
	if len(got) != len(want) {
		t.Fatalf("%d limits, want %d: %s", len(got), len(want), r.errors)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%+v\nwant %+v", got[i], want[i])
		}
	}
	// Of the 100 requests of the largest, 20 are within the limits.
	testenv.Same(t, "shares", *all.Shares, simulate.Shares{
		Requests: 3680, RefusedRequests: 80, Identities: customers, RefusedIdentities: 1,
	})
	pasted := `{"rules": [` + string(all.Rule) + `]}`
	rule := decode[struct{ Rules []map[string]any }](t, result{out: pasted}).Rules[0]
	testenv.Same(t, "mode", rule["mode"], any("shadow"))
	shown := fmt.Sprint(rule["limits"])
	for _, want := range []string{"limit:20 name:minute", "burst:20 limit:2 name:bucket", "limit:20 name:day", "limit:3"} {
		testenv.Same(t, shown+" has "+want, strings.Contains(shown, want), true)
	}
	for _, c := range []struct{ limit, refused int }{{20, 1}, {19, 10}} { // identities that the plugin refuses something
		alone := strings.Replace(metered(c.limit), metered(c.limit)[strings.Index(metered(c.limit), `,
    {"name": "bucket"`):strings.Index(metered(c.limit), "]}]}")], "", 1)
		r := execute(t, alone, "simulate", "-c", "-", "--log", log, "-o", "json")
		report := decode[simulate.Report](t, r)
		if want := int64(80 + (c.refused - 1) + (20 - c.limit)); report.Rejected != want {
			t.Errorf("with a limit of %d %d are rejected, want %d", c.limit, report.Rejected, want)
		}
	}
}

func TestSuggestOfFewIdentities(t *testing.T) {
	t.Parallel()
	few := write(t, "few.log", strings.Join(strings.SplitAfter(accessLog(500*time.Millisecond), "\n")[:100], ""))
	if r := execute(t, metered(5), "suggest", "per-key", "-c", "-", "--log", few); !strings.Contains(r.out,
		"not enough data: 100 identities (want 1000)") {
		t.Errorf("%s%s", r.out, r.errors)
	}
	if r := execute(t, metered(5), "suggest", "nosuch", "-c", "-", "--log", few); r.code != console.Misused {
		t.Errorf("exit code %d for no rule", r.code)
	}
}

// TestSuggestExample runs the example of docs/cli.md.
func TestSuggestExample(t *testing.T) {
	t.Parallel()
	e := readExample(t, "## suggest").with(map[string]string{
		"plugin.json": write(t, "plugin.json", metered(5)),
		"access.log":  write(t, "access.log", accessLog(500*time.Millisecond)),
	})
	if r := execute(t, "", e.args...); r.out != e.out {
		t.Errorf("%s%s\nthe page has\n%s", r.out, r.errors, e.out)
	}
}
