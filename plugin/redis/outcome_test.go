package redis

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

var outcomeNames = [outcomes]string{
	accepted: "reply", refused: "refusal", unknown: "NOSCRIPT", timeless: "no TIME", otherSizes: "other sizes",
	nonsense: "nonsense", timedOut: "timeout", lost: "lost connection", givenUp: "waited too long",
}

// shows wants docs/internals.md to have a table of rows, which says what the code does: read it there line by line.
func shows(t *testing.T, rows [][]string) {
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 1, ' ', tabwriter.Debug)
	for _, row := range rows {
		_, err := io.WriteString(w, strings.Join(row, "\t ")+"\n")
		testenv.OK(t, err)
	}
	testenv.OK(t, w.Flush())
	testenv.Shows(t, "docs/internals.md", table.String())
}

// What follows from each outcome of each command: from what Redis answers, and from everything else. "-"
// cannot be, and "." changes nothing.
func TestEveryOutcomeOfEveryCommand(t *testing.T) {
	t.Parallel()
	for _, part := range [][2]outcome{{accepted, nonsense}, {nonsense, outcomes}} {
		rows := [][]string{append([]string{""}, outcomeNames[part[0]:part[1]]...)}
		for i := range table {
			row := []string{table[i].name}
			for _, a := range table[i].after[part[0]:part[1]] {
				if a == nil {
					a = &action{name: "-"}
				}
				row = append(row, a.name)
			}
			rows = append(rows, row)
		}
		shows(t, rows)
	}
}

// How background commands are treated that cannot be sent at once.
func TestPolicies(t *testing.T) {
	t.Parallel()
	rows := [][]string{{"", "leaves", "may wait", "in one call", "in one callback", "for"}}
	names := map[int64]string{0: "max_pending", -1: "none", noBound: "all"}
	patiences := map[int64]string{0: "the slots' life", noBound: "any time"}
	for k := refunding; k < scripted; k++ {
		p := &policies[k]
		rows = append(rows, []string{
			table[k].name, [...]string{"at once", "when idle", "later"}[p.leaves],
			cmp.Or(names[p.most], fmt.Sprint(p.most)), fmt.Sprint(p.together),
			cmp.Or(names[p.portion], fmt.Sprint(p.portion)),
			cmp.Or(patiences[p.patienceMicros], inMicros(p.patienceMicros).String()),
		})
	}
	shows(t, rows)
}
