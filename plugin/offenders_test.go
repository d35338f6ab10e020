package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// reports is the top offenders that were logged, a line each:
// "60s 5: a x 3, a y 2".
func (w *worker) reports() (reports []string) {
	for _, line := range w.logs() {
		text, ok := strings.CutPrefix(line, "info {")
		if !ok {
			continue
		}
		var report struct {
			Event               string
			Seconds, Rejections int
			Offenders           []struct {
				Rule, Identity    string
				Rejections, Error int
			}
		}
		if err := json.Unmarshal([]byte("{"+text), &report); err != nil {
			w.t.Errorf("%s: %v", line, err)
		}
		testenv.Same(w.t, "event", report.Event, "top_offenders")
		var offenders []string
		for _, o := range report.Offenders {
			offenders = append(offenders, fmt.Sprintf("%s %s %d-%d", o.Rule, o.Identity, o.Rejections, o.Error))
		}
		reports = append(reports, fmt.Sprintf("%ds %d: %s", report.Seconds, report.Rejections, strings.Join(offenders, ", ")))
	}
	return reports
}

// Who is rejected is reported at the end of an interval, in which anybody was,
// with a secret still hashed; and the gauges show the counts by rank.
func TestTopOffenders(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		i := w.load(`{"top_offenders": {"size": 3, "interval": "10s"}, "rules": [` + perClient("a", 1) + `,
			{"name": "trial", "mode": "shadow", "key": [{"header": "x-key", "hash": true}],
			 "limits": [{"algorithm": "fixed_window", "limit": 1, "window": "1h"}]}]}`)
		ask := func(n int, headers ...string) {
			for range n {
				i.get("/", headers...).end()
			}
		}
		step := func(what string, reports int, last string, ranks ...int64) {
			t.Helper()
			got := w.reports()
			testenv.Same(w.t, what+": number of reports", len(got), reports)
			if len(got) > 0 {
				testenv.Same(w.t, what+": the last report", got[len(got)-1], last)
			}
			stats := w.stats()
			for n := range 4 {
				name, want := fmt.Sprintf("top_offenders.rank.%d.rejections", n+1), int64(0)
				if n < len(ranks) {
					want = ranks[n]
				}
				if stats[name] != want {
					t.Errorf("%s: %s is %d, want %d", what, name, stats[name], want)
				}
			}
		}
		i.wait(time.Minute)
		ask(1, client("x")...)
		i.wait(time.Minute)
		step("no client was rejected", 0, "")
		ask(3, client("x")...)
		ask(5, "x-client", "y z|")
		ask(3, "x-key", "secret")
		i.wait(9 * time.Second)
		step("before the end of the interval", 0, "")
		i.wait(3 * time.Second)
		first := "10s 9: a y%20z%7C 4-0, a x 3-0, trial 2bb80d537b1da3e38bd30361aa855686bde0eacd 2-0"
		step("after the interval", 1, first, 4, 3, 2)
		i.wait(30 * time.Second)
		step("no client was rejected since", 1, first)
		if period := i.TickPeriod(); period != 0 {
			t.Errorf("a tick every %v with nothing to report", period)
		}
		ask(2, client("x")...)
		i.wait(12 * time.Second)
		step("another interval", 2, "10s 2: a x 2-0", 2)
		i.Close()
		step("closed", 2, "10s 2: a x 2-0")
		if w.logged("secret") {
			t.Error("a hashed identity was logged as it is")
		}
	})
}

// Without top_offenders no client is followed.
func TestNoTopOffenders(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		i := w.load(`{"rules": [` + perClient("a", 1) + `]}`)
		for range 5 {
			i.get("/", client("x")...).end()
		}
		i.wait(time.Hour)
		if logs := w.logs(); len(logs) != 0 {
			t.Errorf("logged %q", logs)
		}
		for _, name := range w.envoy.Metrics() {
			if strings.Contains(name, "offenders") {
				t.Errorf("%s was defined", name)
			}
		}
	})
}
