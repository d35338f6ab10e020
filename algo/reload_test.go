package algo

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestReload: whatever a limit is changed to, in size or variant, the state it left behind is
// understood or taken for none, and is never an error.
func TestReload(t *testing.T) {
	t.Parallel()
	client := startRedis(t)
	for a := FixedWindow; a <= GCRA; a++ {
		limits := []Limit{{Units: 10}, {Units: 100}}
		switch {
		case a.HasBurst():
			limits = append(limits, Limit{Units: MaxUnits}, Limit{Units: 10, Burst: 1},
				Limit{Units: 1, Burst: 40_000_000}) // 76 years
			if a == LeakyBucket {
				limits = append(limits, Limit{Units: 10, Queue: true, MaxDelayMicros: 1e6})
			}
		case a == FixedWindow:
			limits = append(limits, Limit{Units: MaxUnits}, Limit{Units: 10, FromFirstRequest: true})
		case a == SlidingWindowCounter:
			limits = append(limits, Limit{Units: MaxUnits})
			for _, n := range []int64{2, 10, 60} {
				limits = append(limits, Limit{Units: 10, SubWindows: n})
			}
		}
		for i, before := range limits {
			for j, after := range limits {
				before.Algorithm, before.WindowMicros, after.Algorithm, after.WindowMicros = a, 60e6, a, 60e6
				old := newTwins(t, onRedis(client), mustPlan(t, before), fmt.Sprintf("%s-%d-%d", a, i, j))
				renewed := newTwins(t, old.lua, mustPlan(t, after), "")
				renewed.keys = old.keys
				now := int64(epoch)
				for step := range 40 {
					what := fmt.Sprintf("from %+v to %+v, step %d", before, after, step)
					w, cost := []*twins{old, renewed}[step/4%2], int64(1+step%4)
					r, out, _, err := w.ruleInLua(t, now, costing(cost))
					testenv.SameError(t, what, err, nil)
					if r.Allowed && step%3 == 0 {
						_, err := renewed.settleInLua(t, now, charge{now, 0, []int64{cost}})
						testenv.SameError(t, what, err, nil)
					}
					now += out[0].RetryAfterMicros/2 + 1e6
					if ttl := client.PTTL(ctx, old.keys[0]).Val(); ttl == -1 {
						t.Fatalf("%s: the key never expires", what)
					}
				}
			}
		}
	}
}

// garbage could be written under our keys by another program.
var garbage = []string{
	"", "x", "nan", "inf", "-inf", "1e308", "-5", "0", "0.5", "1:2", "12345678901234567890123",
	"8 bytes.", "\x00\x00\x00\x00\x00\x00\xf8\x7f", "\x00\x00\x00\x00\x00\x00\xf0\xff", "\x00\x00\x00\x00\x00\x00\xf8\x3f",
	"sixteen bytes ..", "twelve bytes", "twelve bytes and twelve more",
	strings.Repeat("\x00\x00\x00\x00\x00\x00\xf8\x7f", 3), strings.Repeat("\x00\x00\x00\x00\x00\x00\xf0\x7f", 3),
	strings.Repeat("\x00\x00\x00\x00\x00\x00\xf0\x3f", 3), strings.Repeat("\x00\x00\x00\x00\x00\x00\xf0\xbf", 3),
	"\x00\x00\x00\x00\x00\x00\xf0\x7f" + "\x01\x00\x00\x00",
	"\x00\x00\x00\x00\x00\x00\xf8\x7f\x00\x00\x00\x00\x00\x00\xf0\x7f",
}

// TestGarbage: a value that makes no sense is not an error, and locks no client out for longer
// than a state of ours would.
func TestGarbage(t *testing.T) {
	t.Parallel()
	client := startRedis(t)
	for i, limit := range everyLimit {
		for j, text := range garbage {
			w := newTwins(t, onRedis(client), mustPlan(t, limit), fmt.Sprintf("garbage-%d-%d", i, j))
			for step := range 6 {
				if limit.Algorithm == SlidingWindowLog {
					testenv.OK(t, client.ZAdd(ctx, w.keys[0], redis.Z{Score: 1, Member: text}).Err())
				} else {
					testenv.OK(t, client.Set(ctx, w.keys[0], text, 0).Err())
				}
				now := epoch + int64(step)*limit.WindowMicros/2
				r, _, _, err := w.ruleInLua(t, now, costing(1))
				what := fmt.Sprintf("%+v after %q, step %d", limit, text, step)
				testenv.SameError(t, what, err, nil)
				if step == 5 {
					testenv.Same(t, what+": that it is allowed", r.Allowed, true)
				}
				_, err = w.settleInLua(t, now, charge{now, 0, []int64{1}})
				testenv.SameError(t, what, err, nil)
			}
		}
	}
}
