package redis

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/sluiceproxy/sluice/algo"
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
		k := command{subject: costing(costs...), change: append(slices.Clone(costs), 1_790_000_000_123_456)}
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
