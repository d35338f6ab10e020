package redis

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

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
