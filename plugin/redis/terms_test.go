package redis

import (
	"slices"
	"testing"

	"github.com/sluiceproxy/sluice/algo"
)

// termedScript is testScript with overrides and a penalty.
func termedScript(t testing.TB) *Script {
	t.Helper()
	plan, err := algo.NewPlanWithTerms(
		[]algo.Limit{{Algorithm: algo.GCRA, Units: 10, WindowMicros: 1_000 * ms, Burst: 20}},
		algo.Terms{Overrides: true, Penalty: &algo.Penalty{
			After: 5, WithinMicros: 60_000 * ms,
			ForMicros: []int64{300_000 * ms, 3_600_000 * ms},
		}},
	)
	if err != nil {
		t.Fatal(err)
	}
	return NewScript(plan, "rl", []string{":gcra:1s"})
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
			name: "as configured", command: command{subject: costing(7)}, script: plan.Script(),
			keys: []string{"3", "rl:{a|b}:gcra:1s", "rl:{a|b}:override", "rl:{a|b}:penalty"},
			args: slices.Concat([]string{"7"}, constants, penalty, []string{""}),
		},
		{
			name: "for an override, and with strikes",
			command: command{subject: costing(7), check: check{
				madeFor: []byte("x2"), strikes: []algo.Strikes{{AgeMicros: 9, Count: 2}, {AgeMicros: 3, Count: 1}},
			}},
			script: plan.Script(),
			keys:   []string{"3", "rl:{a|b}:gcra:1s", "rl:{a|b}:override", "rl:{a|b}:penalty"},
			args:   slices.Concat([]string{"7"}, constants, penalty, []string{"9:2 3:1", "x2"}),
		},
		{
			name: "without TIME", command: command{manner: manner{byKey: true}, subject: costing(7)},
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

const (
	otherOverride = "*4\r\n:7\r\n:-6\r\n:5000\r\n$2\r\nx2\r\n"
	termsReply    = "*6\r\n:8\r\n:7\r\n:5\r\n:0\r\n:4\r\n:0\r\n"
)

// ruled is a request whose answers are kept.
type ruled struct {
	*client
	heard []algo.Ruling
}

func (w *ruled) Decided(_ int, r *Reply, _ int64) { w.heard = append(w.heard, r.Ruling) }

func (r *rig) ruled(strikes ...algo.Strikes) *ruled {
	w := &ruled{client: r.resizable("a")}
	if cause := r.conn.Begin(r.now); cause != NoCause {
		r.t.Fatal(cause)
	}
	r.conn.Add(w, 0, Check{Script: r.script, Demand: of("a"), Cost: 1, Strikes: strikes})
	r.conn.Flush(r.now)
	return w
}

// What a check tells of is its own from Add on.
func TestStrikesAreCopied(t *testing.T) {
	t.Parallel()
	r := newRig(t, testOptions())
	r.script = termedScript(t)
	strikes := []algo.Strikes{{AgeMicros: 5, Count: 3}}
	r.ruled(strikes...)
	strikes[0] = algo.Strikes{AgeMicros: 9, Count: 9}
	r.answer(otherOverride)
	if again := r.answer(termsReply); !slices.Contains(again, "5:3") {
		t.Errorf("sent %q", again)
	}
}

// A check for another override is sent again as that one makes it, and what it tells of
// is told again: nothing has been counted.
func TestAsksAgainForAnotherOverride(t *testing.T) {
	t.Parallel()
	r := newRig(t, testOptions())
	r.script = termedScript(t)
	w := r.ruled(algo.Strikes{AgeMicros: 5, Count: 3})
	first := r.answer(otherOverride)
	second := r.answer(termsReply)
	constants := 3 + 3 + 1 // EVALSHA, hash, number of keys; the keys; the cost
	if slices.Equal(first[constants:constants+2], second[constants:constants+2]) {
		t.Errorf("sent %q, then %q", first, second)
	}
	if got := second[len(first)-1:]; !slices.Equal(got, []string{"5:3", "x2"}) {
		t.Errorf("the last arguments are %q", got)
	}
	if len(w.heard) != 1 || !w.heard[0].Allowed {
		t.Errorf("heard %+v, want one decision that allows", w.heard)
	}
	r.wantNoComplaint("another override")
	// The next one is sent as it is: the entry's memory says nothing of the override.
	r.ruled()
	if next := r.answer(termsReply); len(next) != len(first) || next[len(next)-1] != "" {
		t.Errorf("then sent %q", next)
	}
}

// An override that changes all the time does not keep a check in the pipe, and is no failure of
// Redis: whoever writes it cannot open the breaker.
func TestOverrideThatChangesAllTheTime(t *testing.T) {
	t.Parallel()
	r := newRig(t, testOptions())
	r.script = termedScript(t)
	for range 100 {
		w := r.ruled()
		r.answer(otherOverride)
		r.answer(otherOverride)
		w.want("error_reply")
	}
	r.wantState(Closed)
	r.wantInFlight(0)
	if len(r.commands) > 0 || !r.open {
		t.Errorf("%q wait for a reply", r.commands)
	}
}

// What a block or free says has no decisions, and reaches the Waiter.
func TestShortReplies(t *testing.T) {
	t.Parallel()
	for reply, want := range map[string]algo.Ruling{
		"*3\r\n:7\r\n:-1\r\n:0\r\n":                                {AtMicros: 7, Allowed: true, By: algo.ByFree},
		"*3\r\n:7\r\n:-2\r\n:-1\r\n":                               {AtMicros: 7, By: algo.ByBlock, LeftMicros: algo.Never},
		"*3\r\n:7\r\n:-3\r\n:9\r\n":                                {AtMicros: 7, By: algo.ByPenalty, LeftMicros: 9},
		"*7\r\n:8\r\n:0\r\n:5\r\n:5\r\n:5\r\n:300000000\r\n:1\r\n": {AtMicros: 8, Ignored: true, EarnedMicros: 300e6},
		"*6\r\n:8\r\n:0\r\n:5\r\n:5\r\n:5\r\n:0\r\n":               {AtMicros: 8},
	} {
		r := newRig(t, testOptions())
		r.script = termedScript(t)
		w := r.ruled()
		r.answer(reply)
		if len(w.heard) != 1 || w.heard[0] != want {
			t.Errorf("%q: heard %+v, want %+v", reply, w.heard, want)
		}
	}
	for _, reply := range []string{"*3\r\n:7\r\n:-1\r\n:0\r\n", otherOverride} {
		r := newRig(t, testOptions()) // of a rule without terms none makes sense
		w := r.request("a").flush()
		r.answer(reply)
		w.want("malformed_reply")
	}
}

// A check that was rejected before a refund in front of it was carried out is not asked
// again where rejections are strikes: the second one would count again.
func TestStrikesCountOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, testOptions())
	r.script = termedScript(t)
	r.ruled()
	r.answer(termsReply)
	r.conn.Refund(Charge{Script: r.script, Demand: of("a"), Cost: 1, AtMicros: 8}, r.now)
	r.answer(":0\r\n")
	r.conn.Refund(Charge{Script: r.script, Demand: of("a"), Cost: 1, Nonce: 5, AtMicros: 9}, r.now)
	w := r.ruled(algo.Strikes{AgeMicros: 5, Count: 3})
	r.answer(noScript)
	told := r.answer("*6\r\n:8\r\n:0\r\n:5\r\n:5\r\n:5\r\n:0\r\n")
	r.wantRefund("a", 9)
	if got := told[len(told)-1]; got != "5:3" {
		t.Errorf("told %q, want 5:3", got)
	}
	if len(w.heard) != 1 || w.heard[0].Allowed {
		t.Errorf("heard %+v, want the rejection", w.heard)
	}
	if got := r.names(); got != "" {
		t.Errorf("sent %s", got)
	}
}
