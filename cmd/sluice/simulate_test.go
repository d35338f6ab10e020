package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestSimulatedOutages: an outage with the defaults goes as docs/operations.md says.
func TestSimulatedOutages(t *testing.T) {
	t.Parallel()
	page := testenv.File(t, "docs/operations.md")
	row := regexp.MustCompile("(?m)^\\| `(--redis-[a-z]+) 10s-([0-9]+)s` \\| ([0-9,]+) \\| ([0-9.]+) s \\|$")
	rows := row.FindAllStringSubmatch(string(page), -1)
	testenv.Same(t, "the number of outages", len(rows), 4)
	config := write(t, "plugin.json", `{"redis": {"cluster": "redis"}, "failure": {"mode": "deny"}, "rules": [
		{"name": "all", "limits": [{"algorithm": "gcra", "limit": 1000000, "window": "1s"}]}]}`)
	for _, r := range rows {
		got := execute(t, "", "simulate", "-c", config, "--url", "http://h/", "--rate", "1000", "--envoys", "10",
			r[1], "10s-"+r[2]+"s")
		_, clients, _ := strings.Cut(got.out, "\nclients")
		clients, _, _ = strings.Cut(clients, "\n")
		undecided, denied := strings.Fields(clients), strings.ReplaceAll(r[3], ",", "")
		testenv.Same(t, r[0]+": 503s", undecided[len(undecided)-1], denied)
		all, err := strconv.ParseFloat(denied, 64)
		testenv.OK(t, err)
		end, err := strconv.ParseFloat(r[2], 64)
		testenv.OK(t, err)
		testenv.Same(t, r[0]+": seconds", r[4], fmt.Sprintf("%.1f", all/1000-(end-10)))
	}
}
