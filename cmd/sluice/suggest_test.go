package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/cmd/sluice/play"
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
			P999: 20, Max: 100, Suggested: 20, Fits: 99.52, Outliers: []simulate.Outlier{{Identity: "k999", Needs: 100}},
		},
		// 2 a second arrive. With a burst of ten times the limit, 2 a second admit any number of them.
		{
			Limit: "bucket", Algorithm: "gcra", Window: "1s", Now: 1, Identities: 1000, P50: 1, P90: 1, P99: 1, P999: 2,
			Max: 2, Suggested: 2, Burst: 20, Fits: 99.7,
		},
		{
			Limit: "day", Algorithm: "fixed_window", Window: "day:UTC", Now: 7, Identities: 1000, P50: 1, P90: 5, P99: 10,
			P999: 20, Max: 100, Suggested: 20, Fits: 99.52, Outliers: []simulate.Outlier{{Identity: "k999", Needs: 100}},
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
		if !reflect.DeepEqual(got[i], want[i]) {
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
	few := write(t, "few.log", strings.Join(strings.SplitAfter(accessLog(500*time.Millisecond), "\n")[:49], ""))
	if r := execute(t, metered(5), "suggest", "per-key", "-c", "-", "--log", few); !strings.Contains(r.out,
		"not enough data: 49 identities (want 50)") {
		t.Errorf("%s%s", r.out, r.errors)
	}
	if r := execute(t, metered(5), "suggest", "nosuch", "-c", "-", "--log", few); r.code != console.Misused {
		t.Errorf("exit code %d for no rule", r.code)
	}
}

// crawled is a log of 60 customers who send 20 requests each, and of one who sends 600, in the format of
// another company.
func crawled() string {
	var log strings.Builder
	for n := range 61 {
		for i := range map[bool]int{true: 600, false: 20}[n == 60] {
			fmt.Fprintf(&log, `{"ts": %d.%d, "verb": "GET", "uri": "/api/x", "user_hash": "h%d", "rejected": `+
				`"{\"limit\":\"day\",\"identity\":\"r%[3]d\"}"}`+"\n", 1772445600+i, n, n)
		}
	}
	return log.String()
}

// TestSuggestAgainstAbuse holds that one abuser does not raise the limits, and that any stable value of a
// log identifies.
func TestSuggestAgainstAbuse(t *testing.T) {
	t.Parallel()
	const daily = `{"rules": [{"name": "per-key", "key": [{"header": "x-api-key"}], "limits": [
		{"name": "day", "algorithm": "fixed_window", "limit": 7, "window": "day"}]}]}`
	log := write(t, "access.log", crawled())
	fields := "time=ts,method=verb,path=uri,x-api-key=user_hash"
	suggest := func(args ...string) simulate.Suggestion {
		t.Helper()
		r := execute(t, daily, append([]string{"suggest", "per-key", "-c", "-", "--log", log, "-o", "json"}, args...)...)
		all := decode[simulate.Advice](t, r).Limits
		if len(all) != 1 {
			t.Fatalf("%d limits: %s", len(all), r.errors)
		}
		return all[0]
	}
	for _, c := range []struct {
		name       string
		args       []string
		identities int
		suggested  int64
		outliers   []simulate.Outlier
	}{
		{"fields", []string{"--fields", fields}, 61, 20, []simulate.Outlier{{Identity: "h60", Needs: 600}}},
		{"without it", []string{"--fields", fields, "--without", "h60"}, 60, 20, nil},
		{
			"without another",
			[]string{"--fields", fields, "--without", "h1", "--percentile", "50"},
			60, 20,
			[]simulate.Outlier{{Identity: "h60", Needs: 600}},
		},
		{
			"another field as key",
			[]string{"--fields", "time=ts,method=verb,path=uri", "--key", "user_hash"},
			61, 20,
			[]simulate.Outlier{{Identity: "h60", Needs: 600}},
		},
		{
			"the identity of rejections",
			[]string{"--fields", "time=ts,method=verb,path=uri", "--key", "rejected.identity"},
			61, 20,
			[]simulate.Outlier{{Identity: "r60", Needs: 600}},
		},
	} {
		got := suggest(c.args...)
		testenv.Same(t, c.name+": identities", got.Identities, c.identities)
		testenv.Same(t, c.name+": suggested", got.Suggested, c.suggested)
		testenv.SameList(t, c.name+": outliers", got.Outliers, c.outliers)
		testenv.Same(t, c.name+": P99.9, which no outlier moves", got.P999, 20)
		testenv.Within(t, c.name+": share that fits, in %", got.Fits, 92, 96)
	}
	r := execute(t, daily, "suggest", "per-key", "-c", "-", "--log", log, "--fields", fields)
	testenv.Same(t, r.out+" names the outlier", strings.Contains(r.out, "Left out: h60 needs 600."), true)
	r = execute(t, daily, "suggest", "per-key", "-c", "-", "--log", log, "--fields", "time=ts,method=verb,path=uri")
	testenv.Same(t, "what a log without the key's field is told", r.errors, "sluice: "+log+
		`: rule "per-key" applies to no request of the log: key[0] is absent: header "x-api-key" (-H 'x-api-key: ...'); `+
		"a log has only what its format writes (--key names a field that identifies)\n")
	r = execute(t, daily, "suggest", "per-key", "-c", "-", "--log", log, "--percentile", "0")
	testenv.Same(t, "exit code of --percentile 0", r.code, console.Misused)
}

// TestSettledByLog holds that a log's status settles what rules settle by status, in simulate, compare and
// suggest: 60 customers log in 20 times, and one fails 8 times, of a limit of 5.
func TestSettledByLog(t *testing.T) {
	t.Parallel()
	var log, bare strings.Builder
	at := time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)
	for n := range 61 {
		for i := range map[bool]int{true: 8, false: 20}[n == 60] {
			status := map[bool]int{true: 401, false: 200}[n == 60]
			line := fmt.Sprintf(`{"start_time": %q, "method": "POST", "path": "/login", "x-api-key": "k%d"`,
				at.Add(time.Duration(i)*time.Second).Format(time.RFC3339Nano), n)
			fmt.Fprintf(&log, "%s, \"status\": %d}\n", line, status)
			fmt.Fprintf(&bare, "%s}\n", line)
		}
	}
	file, without := write(t, "access.log", log.String()), write(t, "bare.log", bare.String())
	const logins = `{"rules": [{"name": "logins", "key": [{"header": "x-api-key"}], "settle": {"status": ["401", "403"]},
		"limits": [{"algorithm": "sliding_window_log", "limit": 5, "window": "15m"}]}]}`
	plugin := write(t, "plugin.json", logins)
	report := decode[simulate.Report](t, execute(t, "", "simulate", "-c", plugin, "--log", file, "-o", "json"))
	testenv.Same(t, "rejected by simulate", report.Rejected, 3)
	c := decode[play.Comparison](t, execute(t, "", "compare", plugin,
		write(t, "b.json", strings.Replace(logins, `"limit": 5`, `"limit": 2`, 1)), "--log", file, "-o", "json"))
	testenv.Same(t, "rejected by both", c.Both, 3)
	testenv.Same(t, "rejected by the second alone", c.OnlyB, 3)
	r := execute(t, "", "suggest", "logins", "-c", plugin, "--log", file, "-o", "json")
	s := decode[simulate.Advice](t, r).Limits[0]
	testenv.Same(t, "suggested", s.P90, 1)
	testenv.Same(t, "at most", s.Max, 8)

	for _, plugin := range []string{
		logins,
		strings.Replace(logins, `"status": ["401", "403"]`, `"expr": "response.code == 401"`, 1),
		strings.Replace(logins, `"status": ["401", "403"]`, `"cost": {"header": "x-tokens", "max": 9}`, 1),
	} {
		r := execute(t, plugin, "simulate", "-c", "-", "--log", without)
		note := `note: rule "logins" settles by`
		testenv.Same(t, r.errors+" has "+note, strings.Contains(r.errors, note), true)
	}
	r = execute(t, logins, "suggest", "logins", "-c", "-", "--log", without)
	testenv.Same(t, r.errors+" is about the status", strings.Contains(r.errors, "settles by the status, which"), true)
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
