package redis

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/plugin/metric"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// newWindowsRig is a rig whose rule has two windows.
func newWindowsRig(t testing.TB) *rig {
	t.Helper()
	r := newRig(t, testOptions())
	r.script = windowsScript(t)
	return r
}

func windowsScript(t testing.TB) *Script {
	t.Helper()
	plan, err := algo.NewPlan([]algo.Limit{
		{Algorithm: algo.FixedWindow, Units: 100, WindowMicros: 60e6},
		{Algorithm: algo.FixedWindow, Units: 1000, WindowMicros: 3600e6},
	})
	if err != nil {
		t.Fatal(err)
	}
	return NewScript(plan, "rl", []string{":fixed_window:1m", ":fixed_window:1h"})
}

const (
	keysOfA = "2 rl:{a}:fixed_window:1m rl:{a}:fixed_window:1h "
	keysOfB = "2 rl:{b}:fixed_window:1m rl:{b}:fixed_window:1h "
)

func settlementOf(tag string, at int64, costs ...int64) Charge {
	return Charge{Demand: rule.Demand{Tag: []byte(tag), Costs: costs}, AtMicros: at}
}

// settledTogether are settlements that leave at once, and the commands that they are.
var settledTogether = []struct {
	name        string
	settlements []Charge
	want        []string
}{
	{
		name:        "one",
		settlements: []Charge{settlementOf("a", 7, 1, 2)},
		want:        []string{"REFUND " + keysOfA + "1 100 60000000 2 1000 3600000000 7"},
	},
	{
		name:        "three",
		settlements: []Charge{settlementOf("a", 7, 1, 2), settlementOf("a", 9, -3, 0), settlementOf("a", 8, 4, 5)},
		want:        []string{"REFUND " + keysOfA + "1 100 60000000 2 1000 3600000000 7 -3 0 9 4 5 8"},
	},
	{
		name:        "one cost for all limits",
		settlements: []Charge{settlementOf("a", 7, 1, 2), {Demand: of("a"), AtMicros: 8, Cost: 3}},
		want:        []string{"REFUND " + keysOfA + "1 100 60000000 2 1000 3600000000 7 3 3 8"},
	},
	{
		name:        "of nothing",
		settlements: []Charge{settlementOf("a", 7, 1, 2), settlementOf("a", 8, 0, 0)},
		want:        []string{"REFUND " + keysOfA + "1 100 60000000 2 1000 3600000000 7"},
	},
	{
		name:        "of two identities",
		settlements: []Charge{settlementOf("a", 7, 1, 2), settlementOf("b", 8, 3, 4), settlementOf("a", 9, 5, 6)},
		want: []string{
			"REFUND " + keysOfA + "1 100 60000000 2 1000 3600000000 7 5 6 9",
			"REFUND " + keysOfB + "3 100 60000000 4 1000 3600000000 8",
		},
	},
	{
		name: "at other sizes",
		settlements: []Charge{settlementOf("a", 7, 1, 2), {
			AtMicros: 8, Demand: rule.Demand{
				Tag: []byte("a"), Costs: []int64{3, 4}, Sizes: []algo.Size{{Units: 50}, {Units: 500}},
			},
		}},
		want: []string{
			"REFUND " + keysOfA + "1 100 60000000 2 1000 3600000000 7",
			"REFUND " + keysOfA + "3 50 60000000 4 500 3600000000 8",
		},
	},
	{
		name:        "more than one call has",
		settlements: repeated(settlementOf("a", 7, 1, 1), maxTogether+2),
		want: []string{
			"REFUND " + keysOfA + "1 100 60000000 1 1000 3600000000 7" + strings.Repeat(" 1 1 7", maxTogether-1),
			"REFUND " + keysOfA + "1 100 60000000 1 1000 3600000000 7 1 1 7",
		},
	},
}

// TestSettlementsOfOneIdentity: those that leave together are one command, in the order
// in which they were asked for; those of others are commands of their own.
func TestSettlementsOfOneIdentity(t *testing.T) {
	t.Parallel()
	for _, tc := range settledTogether {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newWindowsRig(t)
			for _, s := range tc.settlements {
				s.Script = r.script
				r.conn.Settle(s, s.Costs, r.now)
			}
			r.pass(minTickMicros)
			r.wantCommands(tc.want...)
			sent := 0
			for _, s := range tc.settlements {
				if !slices.Equal(s.Costs, []int64{0, 0}) {
					sent++
				}
			}
			for range tc.want {
				r.answer(":0\r\n")
			}
			r.wantSettlements(int64(sent), 0)
			if !r.conn.Idle() {
				t.Error("not idle")
			}
		})
	}
}

func repeated(c Charge, n int) (all []Charge) {
	for range n {
		all = append(all, c)
	}
	return all
}

// TestSlotsAreSettledOneByOne: the charge of a rule with slots is under a nonce.
func TestSlotsAreSettledOneByOne(t *testing.T) {
	t.Parallel()
	r := newSlotRig(t)
	for nonce := range int64(2) {
		charge := r.held(nonce)
		r.conn.Settle(charge, []int64{1, 0}, r.now)
	}
	r.pass(minTickMicros)
	r.wantCommands(
		"REFUND 2 rl:{r|a}:fixed_window:1m rl:{r|a}:concurrency 1 10 60000000 0 0 5 30000000 77",
		"REFUND 2 rl:{r|a}:fixed_window:1m rl:{r|a}:concurrency 1 10 60000000 0 1 5 30000000 77",
	)
}

// TestSettlementsLostTogether: all that are in one command are lost with it, and sent
// again with it.
func TestSettlementsLostTogether(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name       string
		replies    []string
		sent, lost int64
	}{
		{name: "an error", replies: []string{"-OOM x\r\n"}, sent: 1, lost: 3},
		{name: "the connection", sent: 1, lost: 3},
		{name: "NOSCRIPT", replies: []string{noScript, ":0\r\n"}, sent: 4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newWindowsRig(t)
			r.conn.Settle(Charge{Script: r.script, Demand: of("b"), Cost: 1, AtMicros: 1}, nil, r.now)
			r.pass(minTickMicros)
			r.answer(":0\r\n") // so that the script is known, until Redis forgets it
			for at := range int64(3) {
				r.conn.Settle(Charge{Script: r.script, Demand: of("a"), Cost: 2, AtMicros: 7 + at}, nil, r.now)
			}
			r.pass(minTickMicros)
			for _, reply := range tc.replies {
				command := r.last()[0]
				if want := " 2 2 8 2 2 9"; !strings.HasSuffix(command, want) {
					t.Errorf("sent %s, want it to end in %s", command, want)
				}
				r.answer(reply)
			}
			if len(tc.replies) == 0 {
				r.closeStream()
			}
			r.wantSettlements(tc.sent, tc.lost)
		})
	}
}

// TestSettlementsAddUp: a real Redis holds in the end what was charged, less
// what each settlement gave back, with one command or many.
func TestSettlementsAddUp(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	r := connect(t, server, testOptions())
	script := windowsScript(t)
	var charged []Charge
	for range 40 {
		charged = append(charged, r.check(script, "a", 2).charge)
	}
	for i, c := range charged {
		c.Costs = []int64{1, int64(-i % 3)}
		r.conn.Settle(c, c.Costs, r.now)
	}
	r.conn.SendOutbox(r.now)
	r.settle()
	if sent, lost := r.counted[metric.SettlementSent], r.counted[metric.SettlementLost]; sent != 40 || lost != 0 {
		t.Errorf("%d settlements taken, %d lost", sent, lost)
	}
	calls := server.Client().Info(t.Context(), "commandstats").Val()
	if want := "cmdstat_eval:calls=" + strconv.Itoa(1+3); !strings.Contains(calls, want) {
		t.Errorf("want %s, one check and three calls for 40 settlements, in\n%s", want, calls)
	}
	a := r.check(script, "a", 0)
	if want := int64(100 - 80 + 40); a.decision.Remaining != want {
		t.Errorf("%d units remain of the minute, want %d", a.decision.Remaining, want)
	}
}
