package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/cmd/sluice/play"
	"github.com/sluiceproxy/sluice/cmd/sluice/simulate"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// accessLog has what the 1,000 customers of an API send, each of them one request every half second: 500 send 1
// request, 400 send 5, 90 send 10, 9 send 20, and one sends 100.
func accessLog() string {
	var log strings.Builder
	begin := time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)
	n := 0
	for _, group := range []struct{ customers, requests int }{{500, 1}, {400, 5}, {90, 10}, {9, 20}, {1, 100}} {
		for range group.customers {
			for i := range group.requests {
				at := begin.Add(time.Duration(i)*500*time.Millisecond + time.Duration(n)*time.Microsecond)
				fmt.Fprintf(&log, "{\"start_time\": %q, \"method\": \"GET\", \"path\": \"/api/x\", \"authority\": \"h\", "+
					"\"x-api-key\": \"k%d\"}\n", at.Format(time.RFC3339Nano), n)
			}
			n++
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
	// 60 customers send 20 requests each, and one sends 600, in the format of another company.
	var lines strings.Builder
	for n := range 61 {
		for i := range map[bool]int{true: 600, false: 20}[n == 60] {
			fmt.Fprintf(&lines, `{"ts": %d.%d, "verb": "GET", "uri": "/api/x", "user_hash": "h%d", "rejected": `+
				`"{\"limit\":\"day\",\"identity\":\"r%[3]d\"}"}`+"\n", 1772445600+i, n, n)
		}
	}
	log := write(t, "access.log", lines.String())
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
