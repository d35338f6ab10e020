package deploy_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestRunbook: each alert's runbook_url leads to its section of docs/runbook.md, which says in three lines
// what it means, where to look and what to do.
func TestRunbook(t *testing.T) {
	const address = "https://github.com/sluiceproxy/sluice/blob/main/docs/runbook.md#"
	var alerts []string
	for _, m := range regexp.MustCompile(`(?ms)^  - alert: (\w+)$(.*?)(?:^$|\z)`).FindAllStringSubmatch(
		string(testenv.File(t, "deploy/prometheus/alerts.yaml")), -1,
	) {
		alerts = append(alerts, m[1])
		if want := "\n      runbook_url: " + address + strings.ToLower(m[1]) + "\n"; !strings.Contains(m[2], want) {
			t.Errorf("%s has no%s", m[1], want)
		}
	}
	_, page, _ := strings.Cut(string(testenv.File(t, "docs/runbook.md")), "\n## Alerts\n")
	var sections []string
	for section := range strings.SplitSeq(page, "\n### ") {
		name, text, found := strings.Cut(section, "\n")
		if !found || !strings.HasPrefix(name, "Sluice") {
			continue // what stands before the first
		}
		sections = append(sections, name)
		var lines []string
		for _, m := range regexp.MustCompile(`(?m)^- \*\*(\w+):\*\*`).FindAllStringSubmatch(text, -1) {
			lines = append(lines, m[1])
		}
		testenv.SameList(t, name, lines, []string{"Means", "Look", "Do"})
	}
	testenv.Same(t, "that the sections are in the order of the alphabet", slices.IsSorted(sections), true)
	slices.Sort(alerts)
	testenv.SameList(t, "the sections of the alerts", sections, alerts)
}
