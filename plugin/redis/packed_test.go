package redis

import (
	"slices"
	"testing"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// A check of several limits has their costs in one argument, as one number where all are the same,
// and their numbers in another. A refund has them one by one.
func TestPackedCommands(t *testing.T) {
	t.Parallel()
	plan, err := algo.NewPlan([]algo.Limit{
		{Algorithm: algo.GCRA, Units: 3000, WindowMicros: 1_000 * ms, Burst: 2},
		{Algorithm: algo.FixedWindow, Units: 100, WindowMicros: 60_000 * ms},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := NewScript(plan, "p", []string{":a", ":b"})
	sizes := []algo.Size{{Units: 1000, Burst: 5}, {Units: 7}}
	const interval = 333 + 6./16 // a third of a millisecond, rounded up to a sixteenth of a microsecond
	for _, tc := range []struct {
		name  string
		kind  kind
		costs []int64
		sizes []algo.Size
		want  []string
	}{
		{"one cost", checking, []int64{12, 12}, nil, []string{"12", testenv.Doubles(interval, 2*interval, 100, 60e6)}},
		{"two costs", checking, []int64{12, 0}, nil, []string{"12 0", testenv.Doubles(interval, 2*interval, 100, 60e6)}},
		{"other sizes", checking, []int64{1, 1}, sizes, []string{"1", testenv.Doubles(1000, 5000, 7, 60e6)}},
		{"a refund", refunding, []int64{12, 0}, nil, []string{"12", "333.375", "666.75", "0", "100", "60000000", "99"}},
	} {
		k := command{kind: tc.kind, subject: costing(tc.costs...), change: append(slices.Clone(tc.costs), 99)}
		k.script, k.Tag, k.Sizes = s, []byte("r|a"), tc.sizes
		got := parseCommands(t, string(k.appendTo(nil)))[0]
		if got = got[5:]; !slices.Equal(got, tc.want) {
			t.Errorf("%s: the arguments are %q, want %q", tc.name, got, tc.want)
		}
	}
}
