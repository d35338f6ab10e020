package decide

import (
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// lives is every event in every state: first what follows from a verdict, then the rest. A
// cell is the next state and what has to be done; "-" never happens in Envoy. It is held
// against design and code alike: read it line by line.
const lives = `
           | waits        | admitted        | queued          | refused         | served
arriving   | asking pause | passed continue | held enqueue    | answered answer | passed report
asking     | -            | passed resume   | held enqueue    | answered answer | passed report
held       | -            | -               | -               | -               | passed report
passed     | -            | -               | -               | -               | -
redirected | -            | -               | -               | -               | -
responded  | -            | -               | -               | -               | -
answered   | -            | -               | -               | -               | -
gone       | -            | ended finish    | ended give back | ended           | ended finish
ended      | -            | -               | -               | -               | -

           | turn comes    | response comes        | redirects       | returns         | stream ends
arriving   | -             | answered              | -               | -               | ended
asking     | -             | asking                | -               | -               | gone
held       | passed resume | held                  | -               | -               | ended give back
passed     | -             | responded show limits | redirected keep | -               | ended finish
redirected | -             | -                     | -               | passed continue | ended finish
responded  | -             | responded show limits | -               | -               | ended finish
answered   | -             | answered              | -               | -               | ended
gone       | -             | -                     | -               | -               | -
ended      | -             | -                     | -               | -               | -
`

var effectNames = map[Effect]string{
	Nothing: "", Continue: "continue", Pause: "pause", Resume: "resume", Answer: "answer", Report: "report",
	Enqueue: "enqueue", GiveBack: "give back", ShowLimits: "show limits", Keep: "keep", Finish: "finish",
}

func cells(line string) (out []string) {
	for cell := range strings.SplitSeq(line, "|") {
		out = append(out, strings.TrimSpace(cell))
	}
	return out
}

// TestInternalsShowsTheStates: the page that explains the inside has this picture.
func TestInternalsShowsTheStates(t *testing.T) {
	t.Parallel()
	testenv.Shows(t, "docs/internals.md", lives)
}

func TestEveryEventInEveryState(t *testing.T) {
	t.Parallel()
	e := Waits
	for picture := range strings.SplitSeq(strings.Trim(lives, "\n"), "\n\n") {
		lines := strings.Split(picture, "\n")
		if len(lines) != 1+int(states) {
			t.Fatalf("a table has %d states, want %d", len(lines)-1, states)
		}
		for column, name := range cells(lines[0])[1:] {
			if name != e.String() {
				t.Fatalf("a column is %q, want %q", name, e)
			}
			event := e
			for _, line := range lines[1:] {
				row := cells(line)
				t.Run(row[0]+"/"+name, func(t *testing.T) {
					t.Parallel()
					from, want := row[0], row[1+column]
					q := &Question{}
					for q.state = range states {
						if q.state.String() == from {
							break
						}
					}
					effect := q.Step(event)
					if want == "-" {
						if effect != Impossible {
							t.Errorf("effect %q, want none: it cannot happen", effectNames[effect])
						}
						if q.State().String() != from {
							t.Errorf("state %s, want it to stay %s", q.State(), from)
						}
						return
					}
					next, name, _ := strings.Cut(want, " ")
					if got := q.State().String(); got != next {
						t.Errorf("state %s, want %s", got, next)
					}
					if effect == Impossible || effectNames[effect] != name {
						t.Errorf("effect %d (%s), want %q", effect, effectNames[effect], name)
					}
				})
			}
			e++
		}
	}
	if e != events {
		t.Errorf("the tables have %d events, want %d", e, events)
	}
}

// A request that waits in Envoy has one way out of each state in which it waits.
func TestPausedRequestsHaveOneExit(t *testing.T) {
	t.Parallel()
	for s, row := range transitions {
		for e, step := range row {
			if step == (transition{}) {
				continue
			}
			exits := step.effect == Resume || step.effect == Report || step.effect == Answer
			waited := State(s) == Asking || State(s) == Held
			exits = exits && waited
			waits := step.next == Asking || step.next == Held
			ends := waited && !waits && Event(e) != StreamEnds // which takes the request along
			if exits != ends {
				t.Errorf("%s: %s ends the wait: %v, and lets the request go or answers it: %v", State(s), Event(e), ends, exits)
			}
		}
	}
}
