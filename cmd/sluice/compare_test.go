package main

import (
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/cmd/sluice/play"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// limited is a rule with one limit a minute.
func limited(name, limit string) string {
	return `{"rules": [{"name": "` + name + `", "key": [{"header": "x-api-key"}], "limits": [
		{"algorithm": "sliding_window_log", "limit": ` + limit + `, "window": "1m"}]}]}`
}

func TestCompare(t *testing.T) {
	t.Parallel()
	log := write(t, "access.log", accessLog(500*time.Millisecond))
	today, tomorrow := write(t, "today.json", limited("per-key", "20")), write(t, "tomorrow.json",
		limited("customers", "19"))
	r := execute(t, "", "compare", today, tomorrow, "--log", log, "-o", "json")
	c := decode[play.Comparison](t, r)
	// Of those who send 20, the 20th; of the one who sends 100, its 20th.
	testenv.Same(t, "the number of requests", c.Requests, 3680)
	testenv.Same(t, "requests that both reject", c.Both, 80)
	testenv.Same(t, "requests that the first alone rejects", c.OnlyA, 0)
	testenv.Same(t, "requests that the second alone rejects", c.OnlyB, 10)
	testenv.Same(t, "the number of differences", len(c.Who), 10)
	if want := (play.Difference{By: "b", Rule: "customers", Identity: "k990", Requests: 1}); len(c.Who) == 0 ||
		c.Who[0] != want {
		t.Errorf("%+v, want %+v first", c.Who, want)
	}
	r = execute(t, "", "compare", tomorrow, today, "--log", log, "-o", "json")
	if c := decode[play.Comparison](t, r); c.OnlyA != 10 || c.OnlyB != 0 {
		t.Errorf("the other way round: %+v", c)
	}
	if r := execute(t, "", "compare", today, today, "--log", log); strings.Count(r.out, "\n") != 1 {
		t.Errorf("with itself: %s", r.out)
	}
	if r := execute(t, "", "compare", today, tomorrow, "--log", log, "--count",
		"0"); r.code != console.Misused {
		t.Errorf("exit code %d for a count of 0", r.code)
	}
}

// TestCompareExample runs the example of docs/cli.md.
func TestCompareExample(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"today.json":    write(t, "today.json", limited("per-key", "20")),
		"tomorrow.json": write(t, "tomorrow.json", limited("per-key", "10")),
		"access.log":    write(t, "access.log", accessLog(500*time.Millisecond)),
	}
	e := readExample(t, "## compare").with(files)
	r := execute(t, "", e.args...)
	for name, file := range files {
		r.out = strings.ReplaceAll(r.out, file, name)
	}
	if squeeze(r.out) != squeeze(e.out) {
		t.Errorf("%s%s\nthe page has\n%s", r.out, r.errors, e.out)
	}
}

// squeeze makes columns of no width: the test's files have longer names.
func squeeze(s string) string {
	var lines []string
	for line := range strings.Lines(s) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return strings.Join(lines, "\n")
}
