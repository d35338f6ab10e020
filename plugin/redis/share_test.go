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
				r := newRig(t, "")
				random := rand.New(rand.NewPCG(uint64(perSecond), uint64(checks)))
				asked, decided := 0, 0
				for range 20_000 / checks {
					for end := r.now + 1_000_000/perSecond; r.now < end; {
						r.pass(min(end-r.now, minTickMicros))
						if len(r.commands) > 0 {
							r.do("serve")
						}
					}
					var tags []string
					for range checks {
						tags = append(tags, []string{"bad", "shard1", "shard2"}[random.IntN(3)])
					}
					w := r.ask(tags...)
					r.do("serve")
					for i, tag := range tags {
						if tag == "bad" {
							continue
						}
						asked++
						if w.refused == NoCause && strings.Contains(w.heard[i], "allowed") {
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
