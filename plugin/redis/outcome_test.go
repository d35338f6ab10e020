package redis

import (
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// afterReplies and afterEnds say what follows from each outcome of each command: from what Redis
// answers, and from everything else. "-" cannot be, and "." changes nothing. Read them line by line.
const afterReplies = `
                 | reply         | refusal                | NOSCRIPT    | no TIME     | other sizes
check            | decide        | fail                   | ask again   | ask again   | remake
refund           | .             | free slots later       | send again  | send again  | -
settlement       | count as sent | count as lost          | send again  | send again  | -
release          | count ended   | free slots later       | send again  | send again  | -
renewal          | count renewed | .                      | renew again | renew again | -
AUTH             | .             | hang up, open          | -           | -           | -
SELECT           | .             | hang up, open          | -           | -           | -
probe            | close         | open, hang up if wrong | -           | -           | -
stream probe     | send the kept | send the kept          | -           | -           | -
INFO server      | note server   | no more INFO           | -           | -           | -
INFO replication | note role     | no more INFO           | -           | -           | -
INFO memory      | note memory   | no more INFO           | -           | -           | -
INFO stats       | note evicted  | no more INFO           | -           | -           | -
INFO keyspace    | report stats  | no more INFO           | -           | -           | -
startup check    | report it     | fail, hang up if wrong | -           | -           | -
abandoned        | .             | .                      | -           | -           | -
`

const afterEnds = `
                 | nonsense      | timeout       | lost connection  | waited too long
check            | fail, hang up | expire        | fail, free slots | -
refund           | -             | .             | free slots       | .
settlement       | -             | .             | count as lost    | count as lost
release          | -             | .             | free slots       | .
renewal          | -             | .             | .                | .
AUTH             | -             | .             | .                | -
SELECT           | -             | .             | .                | -
probe            | open, hang up | open, abandon | open             | -
stream probe     | -             | .             | .                | -
INFO server      | -             | .             | .                | -
INFO replication | -             | .             | .                | -
INFO memory      | -             | .             | .                | -
INFO stats       | -             | .             | .                | -
INFO keyspace    | -             | .             | .                | -
startup check    | fail, hang up | fail, abandon | fail             | -
abandoned        | -             | .             | .                | -
`

var outcomeNames = [outcomes]string{
	accepted: "reply", refused: "refusal", unknown: "NOSCRIPT", timeless: "no TIME", otherSizes: "other sizes",
	nonsense: "nonsense", timedOut: "timeout", lost: "lost connection", givenUp: "waited too long",
}

// backgroundPolicies is how background commands are treated that cannot be sent at once.
const backgroundPolicies = `
           | leaves    | may wait    | in one call | in one callback | for
refund     | at once   | 16384       | 16          | 256             | any time
settlement | later     | max_pending | 16          | all             | 3s
release    | when idle | 65536       | 256         | 256             | the slots' life
renewal    | at once   | none        | 1           | all             | any time
`

// picture draws rows of cells that are as wide as those of the table it is held against.
func picture(rows [][]string) string {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], len(cell))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		line := ""
		for i, cell := range row {
			line += cell + strings.Repeat(" ", widths[i]-len(cell)) + " | "
		}
		b.WriteString("\n" + strings.TrimRight(strings.TrimSuffix(line, "| "), " "))
	}
	return b.String() + "\n"
}

// TestInternalsShowsTheTables: the page that explains the inside has all pictures.
func TestInternalsShowsTheTables(t *testing.T) {
	t.Parallel()
	testenv.Shows(t, "docs/internals.md", afterReplies)
	testenv.Shows(t, "docs/internals.md", afterEnds)
	testenv.Shows(t, "docs/internals.md", backgroundPolicies)
}

// TestEveryOutcomeOfEveryCommand prints the table in two parts, and holds them against
// those above.
func TestEveryOutcomeOfEveryCommand(t *testing.T) {
	t.Parallel()
	if got := tableAfter(accepted, nonsense); trimmed(got) != trimmed(afterReplies) {
		t.Errorf("after replies the table is%s", got)
	}
	if got := tableAfter(nonsense, outcomes); trimmed(got) != trimmed(afterEnds) {
		t.Errorf("after everything else the table is%s", got)
	}
}

// tableAfter draws the table for the outcomes from first to the one before end.
func tableAfter(first, end outcome) string {
	rows := [][]string{append([]string{""}, outcomeNames[first:end]...)}
	for i := range table {
		row := []string{table[i].name}
		for _, a := range table[i].after[first:end] {
			if a == nil {
				a = &action{name: "-"}
			}
			row = append(row, a.name)
		}
		rows = append(rows, row)
	}
	return picture(rows)
}

// TestPolicies prints the policies of background commands, and holds them against the table above.
func TestPolicies(t *testing.T) {
	t.Parallel()
	rows := [][]string{{"", "leaves", "may wait", "in one call", "in one callback", "for"}}
	for k := refunding; k < scripted; k++ {
		p := &policies[k]
		rows = append(rows, []string{
			table[k].name, [...]string{"at once", "when idle", "later"}[p.leaves],
			numbered(p.most, map[int64]string{0: "max_pending", -1: "none"}), numbered(p.together, nil),
			numbered(p.portion, map[int64]string{noBound: "all"}), patience(p.patienceMicros),
		})
	}
	if got := picture(rows); trimmed(got) != trimmed(backgroundPolicies) {
		t.Errorf("the policies are%s", got)
	}
}

func numbered(n int64, names map[int64]string) string {
	if name := names[n]; name != "" {
		return name
	}
	return strconv.FormatInt(n, 10)
}

func patience(micros int64) string {
	switch micros {
	case 0:
		return "the slots' life"
	case math.MaxInt64:
		return "any time"
	}
	return (time.Duration(micros) * time.Microsecond).String()
}

// trimmed is a picture without the width of its cells.
func trimmed(table string) string {
	var lines []string
	for line := range strings.Lines(strings.TrimSpace(table)) {
		cells := strings.Split(line, "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		lines = append(lines, strings.Join(cells, "|"))
	}
	return strings.Join(lines, "\n")
}
