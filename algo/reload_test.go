package algo

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
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
				reload(t, client, fmt.Sprintf("%s-%d-%d", a, i, j), before, after)
			}
		}
	}
}

func reload(t *testing.T, client *redis.Client, name string, before, after Limit) {
	t.Helper()
	old := newLuaPolicy(t, client, mustPolicy(t, before), name)
	renewed := newLuaPolicy(t, client, mustPolicy(t, after), name)
	renewed.keys = old.keys
	now := int64(epoch)
	for step := range 40 {
		l := []*luaPolicy{old, renewed}[step/4%2]
		out, allowed, err := l.parse(l.decide(client, now, int64(1+step%4), fmt.Sprint(step)))
		if err != nil {
			t.Fatalf("from %+v to %+v, step %d: %v", before, after, step, err)
		}
		if allowed && step%3 == 0 {
			if err := renewed.giveBack(client, now, int64(1+step%4), fmt.Sprint(step), now).Err(); err != nil {
				t.Fatalf("from %+v to %+v, step %d: %v", before, after, step, err)
			}
		}
		now += out[0].RetryAfterMicros/2 + 1e6
		if ttl := client.PTTL(ctx, old.keys[0]).Val(); ttl == -1 {
			t.Fatalf("from %+v to %+v, step %d: the key never expires", before, after, step)
		}
	}
}

// TestShrunkBurstDrains: what a larger burst admitted keeps its place, so that
// nobody gains by switching between two tiers, and passes with time.
func TestShrunkBurstDrains(t *testing.T) {
	t.Parallel()
	client := startRedis(t)
	for _, a := range []Algorithm{TokenBucket, LeakyBucket, GCRA} {
		large := newLuaPolicy(t, client, mustPolicy(t, Limit{Algorithm: a, Units: 10, WindowMicros: 10e6, Burst: 100}), a.String())
		small := newLuaPolicy(t, client, mustPolicy(t, Limit{Algorithm: a, Units: 10, WindowMicros: 10e6, Burst: 5}), a.String())
		small.keys = large.keys
		if _, allowed, err := large.parse(large.decide(client, epoch, 100, "")); !allowed || err != nil {
			t.Fatal(allowed, err)
		}
		want := Decision{ResetAfterMicros: 100e6, RetryAfterMicros: 96e6}
		if out, _, err := small.parse(small.decide(client, epoch, 1, "")); err != nil || out[0] != want {
			t.Errorf("%s: %+v, %v; want %+v", a, out, err, want)
		}
	}
}

// garbage is what someone else might write under our keys.
var garbage = []string{
	"", "x", "nan", "inf", "-inf", "1e308", "-5", "0", "0.5", "1:2", "12345678901234567890123",
	"8 bytes.", "\x00\x00\x00\x00\x00\x00\xf8\x7f", "\x00\x00\x00\x00\x00\x00\xf0\xff", "\x00\x00\x00\x00\x00\x00\xf8\x3f",
	"sixteen bytes ..", "\x00\x00\x00\x00\x00\x00\xf8\x7f\x00\x00\x00\x00\x00\x00\xf0\x7f",
}

// TestGarbage: what makes no sense is no error and locks nobody out for longer
// than a state of ours would.
func TestGarbage(t *testing.T) {
	t.Parallel()
	client := startRedis(t)
	for i, limit := range everyLimit() {
		for j, text := range garbage {
			l := newLuaPolicy(t, client, mustPolicy(t, limit), fmt.Sprintf("garbage-%d-%d", i, j))
			for step := range 6 {
				litter(t, l, text)
				now := epoch + int64(step)*limit.WindowMicros/2
				_, allowed, err := l.parse(l.decide(client, now, 1, fmt.Sprint(step)))
				if err != nil || step == 5 && !allowed {
					t.Errorf("%+v after %q, step %d: %v, %v", limit, text, step, allowed, err)
				}
				if err := l.giveBack(client, now, 1, fmt.Sprint(step), now).Err(); err != nil {
					t.Errorf("%+v after %q, step %d: %v", limit, text, step, err)
				}
			}
		}
	}
}

// litter writes garbage in the type of the limit's key, to stay for ever.
func litter(t *testing.T, l *luaPolicy, text string) {
	t.Helper()
	key := l.keys[0]
	var err error
	switch l.Limits()[0].Algorithm {
	case SlidingWindowLog:
		err = l.client.ZAdd(ctx, key, redis.Z{Score: 1, Member: text}).Err()
	default:
		err = l.client.Set(ctx, key, text, 0).Err()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestLeadWithoutExpiry: a time far ahead in a key that never expires is not
// ours, and locks nobody out.
func TestLeadWithoutExpiry(t *testing.T) {
	t.Parallel()
	client := startRedis(t)
	for _, a := range []Algorithm{TokenBucket, LeakyBucket, GCRA} {
		l := newLuaPolicy(t, client, mustPolicy(t, Limit{Algorithm: a, Units: 10, WindowMicros: 1e6}), a.String())
		wrap := l.limiters[0].bucket.wrap
		state, err := binary.Append(nil, binary.LittleEndian, float64(epoch%wrap+wrap/4))
		if err != nil {
			t.Fatal(err)
		}
		if err := client.Set(ctx, l.keys[0], state, 0).Err(); err != nil {
			t.Fatal(err)
		}
		if out, allowed, err := l.parse(l.decide(client, epoch, 1, "")); err != nil || !allowed || out[0].Remaining != 9 {
			t.Errorf("%s: %v %+v %v", a, allowed, out, err)
		}
	}
}
