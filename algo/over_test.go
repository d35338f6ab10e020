package algo

import (
	"fmt"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// credits are a limit that may pay for others.
var credits = Limit{Algorithm: FixedWindow, Units: 50, WindowMicros: 60e6, Over: true}

// overStep is one call of a rule of 2 a minute, with credits of 3 an hour beside it.
type overStep struct {
	name         string
	costs        []int64
	allowed      bool
	remaining    [2]int64
	hidden       bool  // the credits were not asked
	waitMicros   int64 // of a rejection
	afterSeconds int64 // since the step before
}

// TestOver: the rule's own limits are asked first; where they reject, the others pay or nothing is
// charged. Both twins say the same of each step.
func TestOver(t *testing.T) {
	t.Parallel()
	client := startRedis(t)
	p := mustPlan(
		t,
		Limit{Algorithm: FixedWindow, Units: 2, WindowMicros: 60e6},
		Limit{Algorithm: FixedWindow, Units: 3, WindowMicros: 3600e6, Over: true},
	)
	w, now := newTwins(t, onRedis(client), p, "over"), int64(epoch)
	for _, step := range []overStep{
		{name: "fits", costs: []int64{1, 1}, allowed: true, remaining: [2]int64{1, 0}, hidden: true},
		{name: "does not fit, and is paid for", costs: []int64{2, 2}, allowed: true, remaining: [2]int64{1, 1}},
		{name: "charged nothing of the rule's own", costs: []int64{1, 1}, allowed: true, hidden: true},
		{name: "fits into neither", costs: []int64{3, 3}, remaining: [2]int64{0, 1}, waitMicros: 3600e6},
		{name: "the shorter wait", costs: []int64{1, 2}, remaining: [2]int64{0, 1}, waitMicros: 60e6},
		{name: "a cost of 0 reports", costs: []int64{0, 0}, allowed: true, hidden: true},
		{name: "others without a cost allow nothing", costs: []int64{1, 0}, hidden: true, waitMicros: 60e6},
		{name: "the last credit", costs: []int64{1, 1}, allowed: true},
		{name: "nothing left", costs: []int64{1, 1}, waitMicros: 60e6},
		{
			name: "the next window", afterSeconds: 60,
			costs: []int64{1, 1}, allowed: true, remaining: [2]int64{1, 0}, hidden: true,
		},
	} {
		now += step.afterSeconds * 1e6
		out, allowed := w.decide(t, now, step.costs...)
		testenv.Same(t, step.name+": allowed", allowed, step.allowed)
		testenv.Same(t, step.name+": remaining", [2]int64{out[0].Remaining, out[1].Remaining}, step.remaining)
		testenv.Same(t, step.name+": hidden", out[1].Hidden, step.hidden)
		if !allowed {
			testenv.Same(t, step.name+": wait", p.WaitMicros(out), step.waitMicros)
		}
	}
}

// TestOverIsRuled: a ruling says that others have paid, with an override's mark behind it, too.
func TestOverIsRuled(t *testing.T) {
	t.Parallel()
	for _, terms := range []Terms{{}, {Overrides: true}} {
		p := mustPlanWithTerms(t, terms, tenInASecond, credits)
		own, paid := []int64{epoch, 9, 100, 0, 0}, []int64{epoch, 0, 100, 100, 100, 2, 100, 0, 0}
		if terms.Overrides {
			own, paid = append(own, 1), append(paid, 1)
		}
		for _, tc := range []struct {
			name   string
			values []int64
			want   Ruling
			err    error
		}{
			{"within its own", own, Ruling{AtMicros: epoch, Allowed: true, Ignored: terms.Overrides}, nil},
			{"paid for", paid, Ruling{AtMicros: epoch, Allowed: true, Over: true, Ignored: terms.Overrides}, nil},
			{
				"paid for, though its own had room",
				[]int64{epoch, 9, 100, 0, 0, 2, 100, 0, 0},
				Ruling{},
				ErrReplyRange,
			},
			{"cut", paid[:7], Ruling{}, ErrReplyLength},
		} {
			out := make([]Decision, 2)
			r, err := p.ParseRuling(tc.values, out)
			testenv.Same(t, tc.name, err, tc.err)
			if err == nil {
				testenv.Same(t, tc.name, r, tc.want)
				testenv.Same(t, tc.name+": hidden", out[1].Hidden, !tc.want.Over)
			}
		}
	}
}

// TestOverKeys: both lists may have the same algorithm and window.
func TestOverKeys(t *testing.T) {
	t.Parallel()
	own, over := tenInASecond, tenInASecond
	over.Over = true
	testenv.Same(t, "key", over.KeySuffix(), ":over"+own.KeySuffix())
	if over.ID() == own.ID() {
		t.Errorf("both have the ID %+v in the embedded store", own.ID())
	}
	over.PerID = "team|"
	testenv.Same(t, "key with per", over.KeySuffix(), ":over"+own.KeySuffix()+":per:team|")
}

// TestOverRefuses: what cannot pay for others, or cannot be paid for, makes no plan.
func TestOverRefuses(t *testing.T) {
	t.Parallel()
	over := func(l Limit) Limit { l.Over = true; return l }
	queue := Limit{Algorithm: GCRA, Units: 1, WindowMicros: 1e6, Queue: true, MaxDelayMicros: 1e6}
	for name, limits := range map[string][]Limit{
		"the rule's own behind": {credits, tenInASecond},
		"slots pay":             {tenInASecond, over(Limit{Algorithm: Concurrency, Units: 1, TTLMicros: 5e6})},
		"a queue pays":          {tenInASecond, over(queue)},
		"for a queue":           {queue, credits},
	} {
		if _, err := NewPlan(limits); err == nil {
			t.Errorf("%s: a plan", name)
		}
	}
	if _, err := NewPlanWithTerms([]Limit{tenInASecond, credits}, everyTerms["penalty"]); err == nil {
		t.Error("with a penalty: a plan")
	}
	if _, err := NewPlan([]Limit{credits}); err != nil {
		t.Errorf("others alone are a part of a plan: %v", err)
	}
}

// TestMostLimitsOver: as many limits as there may be have room among Lua's local variables in both
// lists.
func TestMostLimitsOver(t *testing.T) {
	t.Parallel()
	client := startRedis(t)
	for start, limit := range everyLimit {
		if limit.Queue {
			continue
		}
		for _, most := range []int{MaxLimits, maxPacked} {
			var limits []Limit
			for i := range most {
				limit.WindowMicros += 1e6 * max(limit.SubWindows, 1)
				limit.Over = i > 0
				limits = append(limits, limit)
			}
			limits[0].Units, limits[0].Burst = 1, 0
			w := newTwins(t, onRedis(client), mustPlan(t, limits...), fmt.Sprint("most", start, most))
			_, allowed := w.decide(t, epoch, 3)
			testenv.Same(t, fmt.Sprintf("that %d of %+v allow it", most, limit), allowed, true)
		}
	}
}
