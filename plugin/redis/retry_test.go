package redis

import (
	"maps"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/metric"
)

const timeRefused = "-ERR This Redis command is not allowed from script script: x, on @user_script:2.\r\n"

// retried are checks that are sent once more, or are not, and how often for which reason.
var retried = []struct {
	name string
	do   func(r *rig)
	want map[metric.Event]int64
}{
	{name: "none", do: func(r *rig) {
		r.request("a").flush()
		r.allow(1)
	}},
	{name: "an unknown script, of two checks", do: func(r *rig) {
		r.request("a", "b").flush()
		r.answer(noScript)
		r.answer(noScript)
	}, want: map[metric.Event]int64{metric.RetriedUnknownScript: 2}},
	{name: "still unknown", do: func(r *rig) {
		r.request("a").flush()
		r.answer(noScript)
		r.answer(noScript)
	}, want: map[metric.Event]int64{metric.RetriedUnknownScript: 1}},
	{name: "an unknown script, too late", do: func(r *rig) {
		r.request("a").flush()
		r.pass(50 * ms)
		r.answer(noScript)
	}},
	{name: "another error", do: func(r *rig) {
		r.request("a").flush()
		r.answer("-OOM full\r\n")
	}},
	{name: "no TIME", do: func(r *rig) {
		r.request("a").flush()
		r.answer(timeRefused)
	}, want: map[metric.Event]int64{metric.RetriedNoTime: 1}},
	{name: "another time", do: func(r *rig) {
		r.resizable("a").flush()
		r.answer(otherTime(1))
	}, want: map[metric.Event]int64{metric.RetriedOtherTime: 1}},
	{name: "another time twice", do: func(r *rig) {
		r.resizable("a").flush()
		r.answer(otherTime(1))
		r.answer(otherTime(2))
	}, want: map[metric.Event]int64{metric.RetriedOtherTime: 1}},
	{name: "a refund that is unknown, and a check behind it", do: func(r *rig) {
		r.learnRefund()
		r.conn.Refund(Charge{Script: r.script, Demand: of("a"), Cost: 1, Nonce: 5, AtMicros: 9}, r.now)
		r.request("a").flush()
		r.answer(noScript)
		r.answer(decision(3, false))
	}, want: map[metric.Event]int64{metric.RetriedOvertaken: 1}},
}

// retries is how often checks were sent once more, by reason.
func (r *rig) retries() map[metric.Event]int64 {
	all := maps.Clone(r.counted)
	maps.DeleteFunc(all, func(e metric.Event, _ int64) bool {
		return e < metric.RetriedUnknownScript || e > metric.RetriedOvertaken
	})
	return all
}

// Each check that is sent once more is counted under its reason, and no other.
func TestRetriesAreCounted(t *testing.T) {
	t.Parallel()
	for _, tc := range retried {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, testOptions())
			tc.do(r)
			if got := r.retries(); !maps.Equal(got, tc.want) {
				t.Errorf("retries %v, want %v", got, tc.want)
			}
		})
	}
}

// An override that changes all the time is counted each time that a check is
// made anew.
func TestRetriesForAnotherOverride(t *testing.T) {
	t.Parallel()
	r := newRig(t, testOptions())
	r.script = termedScript(t)
	r.ruled()
	r.answer(otherOverride)
	r.answer(otherOverride)
	testenv.Same(t, "retries for other overrides", r.counted[metric.RetriedOtherOverride], 1)
	testenv.Same(t, "reasons for retries", len(r.retries()), 1)
}
