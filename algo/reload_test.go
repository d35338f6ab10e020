package algo

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// reloads are, for each algorithm, limits that share a key because only their
// sizes and variants differ.
func reloads(a Algorithm) []Limit {
	const window = 60e6
	limits := []Limit{
		{Algorithm: a, Units: 10, WindowMicros: window},
		{Algorithm: a, Units: 100, WindowMicros: window},
		{Algorithm: a, Units: MaxUnits, WindowMicros: window},
	}
	switch a {
	case FixedWindow:
		limits = append(limits, Limit{Algorithm: a, Units: 10, WindowMicros: window, FromFirstRequest: true})
	case SlidingWindowCounter:
		for _, n := range []int64{2, 10, 60} {
			limits = append(limits, Limit{Algorithm: a, Units: 10, WindowMicros: window, SubWindows: n})
		}
	case LeakyBucket:
		limits = append(limits, Limit{Algorithm: a, Units: 10, WindowMicros: window, Queue: true, MaxDelayMicros: 1e6})
	case SlidingWindowLog:
		limits = limits[:2]
	}
	if a.HasBurst() {
		limits = append(limits,
			Limit{Algorithm: a, Units: 10, WindowMicros: window, Burst: 1},
			Limit{Algorithm: a, Units: 1, WindowMicros: window, Burst: 40_000_000}) // 76 years
	}
	return limits
}

// TestReload: whatever a limit is changed to, the state it left behind is
// understood or taken for none, and is never an error.
func TestReload(t *testing.T) {
	t.Parallel()
	client := startRedis(t)
	for a := FixedWindow; a <= GCRA; a++ {
		for i, before := range reloads(a) {
			for j, after := range reloads(a) {
				name := fmt.Sprintf("%s-%d-%d", a, i, j)
				old := newLuaPlan(t, client, mustPlan(t, before), name)
				renewed := newLuaPlan(t, client, mustPlan(t, after), name)
				renewed.keys = old.keys
				now := int64(epoch)
				for step := range 40 {
					l := []*luaPlan{old, renewed}[step/4%2]
					out, allowed, err := l.parse(l.decide(client, now, int64(1+step%4)))
					if err != nil {
						t.Fatalf("from %+v to %+v, step %d: %v", before, after, step, err)
					}
					if allowed && step%3 == 0 {
						if err := renewed.giveBack(client, now, int64(1+step%4), now).Err(); err != nil {
							t.Fatalf("from %+v to %+v, step %d: %v", before, after, step, err)
						}
					}
					now += out[0].RetryAfterMicros/2 + 1e6
					if ttl := client.PTTL(ctx, old.keys[0]).Val(); ttl == -1 {
						t.Fatalf("from %+v to %+v, step %d: the key never expires", before, after, step)
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
	for i, limit := range everyLimit() {
		for j, text := range garbage {
			l := newLuaPlan(t, client, mustPlan(t, limit), fmt.Sprintf("garbage-%d-%d", i, j))
			for step := range 6 {
				var err error
				switch l.Limits()[0].Algorithm {
				case SlidingWindowLog:
					err = l.client.ZAdd(ctx, l.keys[0], redis.Z{Score: 1, Member: text}).Err()
				default:
					err = l.client.Set(ctx, l.keys[0], text, 0).Err()
				}
				testenv.OK(t, err)
				now := epoch + int64(step)*limit.WindowMicros/2
				_, allowed, err := l.parse(l.decide(client, now, 1))
				what := fmt.Sprintf("%+v after %q, step %d", limit, text, step)
				testenv.SameError(t, what, err, nil)
				if step == 5 {
					testenv.Same(t, what+": that it is allowed", allowed, true)
				}
				if err := l.giveBack(client, now, 1, now).Err(); err != nil {
					t.Errorf("%+v after %q, step %d: %v", limit, text, step, err)
				}
			}
		}
	}
}
