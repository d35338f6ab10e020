package redis

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// Error replies may come from one shard of several: they open the breaker only
// if they are most of what was asked in the last second. Without replies nothing
// speaks for the rest. Failures that a success has interrupted do not count.
func TestShareThatFails(t *testing.T) {
	t.Parallel()
	loading := func(r *rig) { r.trip(1) }
	silence := func(r *rig) { r.request("a").flush(); r.pass(50 * ms) }
	for _, tc := range []struct {
		name      string
		decided   int64 // before
		wait      int64 // after that, in microseconds
		fail      func(*rig)
		wantOpens int64 // after so many failures in a row
	}{
		{name: "nothing was decided before", fail: loading, wantOpens: 5},
		{name: "fewer were decided", decided: 4, fail: loading, wantOpens: 5},
		{name: "as many were decided", decided: 5, fail: loading, wantOpens: 6},
		{name: "many were decided", decided: 100, fail: loading, wantOpens: 101},
		{name: "many were decided a second ago", decided: 100, wait: 1000 * ms, fail: loading, wantOpens: 5},
		{name: "many were decided half a second ago", decided: 100, wait: 500 * ms, fail: loading, wantOpens: 101},
		{name: "many were decided, then silence", decided: 100, fail: silence, wantOpens: 5},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, testOptions())
			for range tc.decided {
				r.request("a").flush()
				r.allow(1)
			}
			r.now += tc.wait
			opened := int64(0)
			for n := int64(1); n <= 200 && opened == 0; n++ {
				tc.fail(r)
				if r.conn.State() == Open {
					opened = n
				}
			}
			if opened != tc.wantOpens {
				t.Errorf("opened after %d failures in a row, want %d", opened, tc.wantOpens)
			}
		})
	}
}

// One shard of three answers nothing but errors, at any load: of the checks of the
// other shards at least 95 % are decided.
func TestOneShardOfThreeFails(t *testing.T) {
	t.Parallel()
	for _, perSecond := range []int64{1, 5, 9, 20, 100, 1000, 5000} {
		for _, checks := range []int{1, 3} {
			t.Run(fmt.Sprintf("%d requests of %d checks a second", perSecond, checks), func(t *testing.T) {
				t.Parallel()
				r := newRig(t, testOptions())
				random := rand.New(rand.NewPCG(uint64(perSecond), uint64(checks)))
				asked, decided := 0, 0
				for range 20_000 / checks {
					for end := r.now + 1_000_000/perSecond; r.now < end; {
						r.pass(min(end-r.now, minTickMicros))
						r.answerByShard()
					}
					w := r.request()
					for range checks {
						w.tags = append(w.tags, fmt.Sprint("shard", random.IntN(3)))
					}
					w.checks = make([]heard, checks)
					w.flush()
					r.answerByShard()
					for i, tag := range w.tags {
						if tag == "shard0" {
							continue
						}
						asked++
						if w.checks[i].at != 0 {
							decided++
						}
					}
				}
				if decided*100 < asked*95 {
					t.Errorf("%d of %d checks of live shards were decided", decided, asked)
				}
			})
		}
	}
}

// answerByShard answers everything: an error for the first of three shards.
func (r *rig) answerByShard() {
	for len(r.commands) > 0 {
		c := r.commands[0]
		switch {
		case strings.Contains(c[3], "shard0"):
			r.answer("-upstream failure\r\n")
		case c[1] == probeSource:
			r.answer("+OK\r\n")
		default:
			r.allow(1)
		}
	}
}

// Two of three shards come back: whichever was asked last, the breaker closes
// within a few probes.
func TestProbesFindTheShardsThatAnswer(t *testing.T) {
	t.Parallel()
	for _, tags := range [][]string{
		{"shard0", "shard1"},
		{"shard1", "shard0"},
		{"shard0", "shard0"},
		{"shard1", "shard1"},
	} {
		r := newRig(t, testOptions())
		r.request(tags[0]).flush()
		r.allow(1)
		for range 5 {
			r.request(tags[1]).flush()
			r.answer("-upstream failure\r\n")
		}
		r.wantState(Open)
		for range 3 {
			if r.conn.State() == Open {
				r.passPause()
				r.answerByShard()
			}
		}
		r.wantState(Closed)
	}
}
