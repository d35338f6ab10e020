package redis

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/internal/twinredis"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// A command is its name, hash or source, number of keys, the keys, and the
// arguments: of each limit the cost and its constants, then the time of the charge.
func TestCommands(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		limits   []algo.Limit
		suffixes []string
		keys     []string
	}{
		{
			name:     "one limit",
			limits:   []algo.Limit{{Algorithm: algo.GCRA, Units: 10, WindowMicros: 1_000 * ms, Burst: 20}},
			suffixes: []string{":gcra:1s"},
			keys:     []string{"p:{rule|\r\n$1}:gcra:1s"},
		},
		{
			name: "three limits",
			limits: []algo.Limit{
				{Algorithm: algo.FixedWindow, Units: 10, WindowMicros: 1_000 * ms},
				{Algorithm: algo.SlidingWindowLog, Units: 100, WindowMicros: 60_000 * ms},
				{Algorithm: algo.TokenBucket, Units: 1000, WindowMicros: 3_600_000 * ms},
			},
			suffixes: []string{":fixed_window:1s", ":sliding_window_log:1m", ":token_bucket:1h"},
			keys: []string{
				"p:{rule|\r\n$1}:fixed_window:1s", "p:{rule|\r\n$1}:sliding_window_log:1m", "p:{rule|\r\n$1}:token_bucket:1h",
			},
		},
	} {
		plan, err := algo.NewPlan(tc.limits)
		if err != nil {
			t.Fatal(err)
		}
		s := NewScript(plan, "p", tc.suffixes)
		costs := plan.Each(7)
		k := command{Demand: rule.Demand{Costs: costs}, change: append(slices.Clone(costs), 1_790_000_000_123_456)}
		k.script, k.Tag, k.nonce = s, []byte("rule|\r\n$1"), 12345
		for _, bySource := range []bool{false, true} {
			for _, kind := range []kind{checking, refunding} {
				k.kind, k.bySource = kind, bySource
				script, args := plan.Script(), plan.CheckArgs(12345, algo.Over{}, costs)
				if kind == refunding {
					script = plan.RefundScript()
					args = append(plan.RefundArgs(12345, algo.Over{}, costs), "1790000000123456")
				}
				head := []string{"EVALSHA", script.SHA1}
				if bySource {
					head = []string{"EVAL", script.Source}
				}
				want := slices.Concat(head, []string{strconv.Itoa(len(tc.keys))}, tc.keys, args)
				got, err := twinredis.Commands[string](k.appendTo(nil))
				testenv.OK(t, err)
				if len(got) != 1 || !slices.Equal(got[0], want) {
					t.Errorf("%s, by source %v:\ngot  %q\nwant %q", tc.name, bySource, got, want)
				}
			}
		}
	}
}

// No two checks of a worker have the same nonce, nor two workers' first ones.
func TestNonces(t *testing.T) {
	t.Parallel()
	seen := map[int64]bool{}
	for seed := range 100 {
		r := newRig(t, fmt.Sprint("seed=", seed))
		for range 10 {
			for _, charge := range r.ask("a", "b").charges {
				if charge.Nonce < 0 || seen[charge.Nonce] {
					t.Fatalf("nonce %d", charge.Nonce)
				}
				seen[charge.Nonce] = true
			}
		}
	}
	r := newRig(t, "")
	r.conn.requests.nonce = 1<<63 - 1
	for i, charge := range r.ask("a", "b").charges {
		testenv.Same(t, "a nonce after the largest", charge.Nonce, int64(i))
	}
}

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
		k := command{kind: tc.kind, Demand: rule.Demand{Costs: tc.costs}, change: append(slices.Clone(tc.costs), 99)}
		k.script, k.Tag, k.Sizes = s, []byte("r|a"), tc.sizes
		commands, err := twinredis.Commands[string](k.appendTo(nil))
		testenv.OK(t, err)
		if got := commands[0][5:]; !slices.Equal(got, tc.want) {
			t.Errorf("%s: the arguments are %q, want %q", tc.name, got, tc.want)
		}
	}
}
