package redis

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/testenv"
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
		k := command{Demand: costing(costs...), change: append(slices.Clone(costs), 1_790_000_000_123_456)}
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
				got := parseCommands(t, string(k.appendTo(nil)))
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
	for seed := range uint64(100) {
		options := testOptions()
		options.Seed = seed
		r := newRig(t, options)
		for range 10 {
			w := r.request("a", "b").flush()
			for _, nonce := range w.nonces {
				if nonce < 0 || seen[nonce] {
					t.Fatalf("nonce %d", nonce)
				}
				seen[nonce] = true
			}
		}
	}
	r := newRig(t, testOptions())
	r.conn.requests.nonce = 1<<63 - 1
	if w := r.request("a", "b").flush(); fmt.Sprint(w.nonces) != "[0 1]" {
		t.Errorf("after the largest nonce come %v", w.nonces)
	}
}

// A check brings the keys of the whole rule and what stands for it; a refund does not.
func TestCommandsOfTerms(t *testing.T) {
	t.Parallel()
	s := termedScript(t)
	plan := s.plan
	constants := plan.Args(0)
	penalty := []string{"5", "60000000", "300000000 3600000000"}
	for _, tc := range []struct {
		name    string
		command command
		script  algo.Script
		keys    []string
		args    []string
	}{
		{
			name: "as configured", command: command{Demand: costing(7)}, script: plan.Script(),
			keys: []string{"3", "rl:{a|b}:gcra:1s", "rl:{a|b}:override", "rl:{a|b}:penalty"},
			args: slices.Concat([]string{"7"}, constants, penalty, []string{""}),
		},
		{
			name: "for an override, and with strikes",
			command: command{Demand: costing(7), madeFor: []byte("x2"), strikes: []algo.Strikes{
				{AgeMicros: 9, Count: 2}, {AgeMicros: 3, Count: 1},
			}},
			script: plan.Script(),
			keys:   []string{"3", "rl:{a|b}:gcra:1s", "rl:{a|b}:override", "rl:{a|b}:penalty"},
			args:   slices.Concat([]string{"7"}, constants, penalty, []string{"9:2 3:1", "x2"}),
		},
		{
			name: "without TIME", command: command{byKey: true, Demand: costing(7)},
			script: plan.ScriptWithoutTime(),
			keys:   []string{"4", "rl:{a|b}:gcra:1s", "rl:{a|b}:override", "rl:{a|b}:penalty", "rl:{a|b}:clock"},
			args:   slices.Concat([]string{"7"}, constants, penalty, []string{""}),
		},
		{
			name: "a refund", command: command{kind: refunding, change: []int64{7, 77}}, script: plan.RefundScript(),
			keys: []string{"1", "rl:{a|b}:gcra:1s"},
			args: slices.Concat([]string{"7"}, constants, []string{"77"}),
		},
	} {
		tc.command.script, tc.command.Tag = s, []byte("a|b")
		want := slices.Concat([]string{"EVALSHA", tc.script.SHA1}, tc.keys, tc.args)
		got := parseCommands(t, string(tc.command.appendTo(nil)))
		if len(got) != 1 || !slices.Equal(got[0], want) {
			t.Errorf("%s:\ngot  %q\nwant %q", tc.name, got, want)
		}
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
		k := command{kind: tc.kind, Demand: costing(tc.costs...), change: append(slices.Clone(tc.costs), 99)}
		k.script, k.Tag, k.Sizes = s, []byte("r|a"), tc.sizes
		got := parseCommands(t, string(k.appendTo(nil)))[0]
		if got = got[5:]; !slices.Equal(got, tc.want) {
			t.Errorf("%s: the arguments are %q, want %q", tc.name, got, tc.want)
		}
	}
}
