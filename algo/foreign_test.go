package algo

import (
	"encoding/binary"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// foreignKeys write what no script of ours does.
var foreignKeys = map[string]func(c redis.Cmdable, key string) error{
	"list": func(c redis.Cmdable, key string) error { return c.RPush(ctx, key, "a").Err() },
	"hash": func(c redis.Cmdable, key string) error { return c.HSet(ctx, key, "a", "b").Err() },
	"set":  func(c redis.Cmdable, key string) error { return c.SAdd(ctx, key, "a").Err() },
	"stream": func(c redis.Cmdable, key string) error {
		return c.XAdd(ctx, &redis.XAddArgs{Stream: key, Values: []string{"a", "b"}}).Err()
	},
	"empty string": func(c redis.Cmdable, key string) error { return c.Set(ctx, key, "", 0).Err() },
	"text":         func(c redis.Cmdable, key string) error { return c.Set(ctx, key, "no state", 0).Err() },
	"long string": func(c redis.Cmdable, key string) error {
		return c.Set(ctx, key, strings.Repeat("x", 1<<20), 0).Err()
	},
	"long number": func(c redis.Cmdable, key string) error { return c.Set(ctx, key, strings.Repeat("1", 1<<10), 0).Err() },
}

// TestForeignKeys: a key of another type, or of a length that no state has, is no key for
// each script of each limit, and is written anew.
func TestForeignKeys(t *testing.T) {
	t.Parallel()
	client := startRedis(t)
	for name, poison := range foreignKeys {
		for i, limit := range append(everyLimit(), hours(), slotsOfTwo, lentLimit) {
			l := newLuaPlan(t, client, mustPlan(t, limit), fmt.Sprintf("%s-%d", name, i))
			for _, cost := range []int64{1, 0, 99} {
				l.poison(t, poison)
				states, want := make([]State, 1), make([]Decision, 1)
				for n := range 2 {
					l.nonce = int64(n + 1)
					allowed := l.DecideAs(l.nonce, states, epoch, l.Each(cost), want)
					out, got, err := l.parse(l.decide(l.client, epoch, cost))
					what := fmt.Sprintf("%s: call %d of cost %d", l.keys[0], n, cost)
					testenv.SameError(t, what, err, nil)
					testenv.Same(t, what+": that it is allowed", got, allowed)
					testenv.SameList(t, what+": its decisions", out, want)
				}
				if n := l.client.Exists(ctx, l.keys[0]).Val(); n == 1 != (len(states[0]) > 0) {
					t.Errorf("%s: %d keys after a cost of %d", l.keys[0], n, cost)
				}
			}
			for _, cost := range []int64{1, -1} {
				l.poison(t, poison)
				states, want := make([]State, 1), make([]Decision, 1)
				l.nonce = 7
				if err := l.giveBack(l.client, epoch, cost, epoch).Err(); err != nil {
					t.Fatalf("%s: settling %d: %v", l.keys[0], cost, err)
				}
				l.RefundAs(7, states, epoch, epoch, l.Each(cost))
				l.DecideAs(7, states, epoch, l.Each(1), want)
				out, _, err := l.parse(l.decide(l.client, epoch, 1))
				if err != nil || !slices.Equal(out, want) {
					t.Fatalf("%s: after %d: %+v, %v; want %+v", l.keys[0], cost, out, err, want)
				}
			}
		}
	}
}

// TestNumbersThatRedisRefuses: the count of a window may be written so that Lua reads a
// number there and INCRBY does not. It counts all the same, and is written anew.
func TestNumbersThatRedisRefuses(t *testing.T) {
	t.Parallel()
	client := startRedis(t)
	day := Limit{Algorithm: FixedWindow, Units: 10, WindowMicros: 86_400e6}
	for i, limit := range []Limit{day, hours()} {
		for _, spelling := range []string{"%#x", " %d", "+%d", "%d.0"} {
			l := newLuaPlan(t, client, mustPlan(t, limit), fmt.Sprint("spelled", spelling, i))
			for _, cost := range []int64{-2, 2} { // owed, given back
				states := make([]State, 1)
				l.decidesAlike(t, states, 3)
				l.spell(t, spelling)
				l.Refund(states, epoch, epoch, l.Each(cost))
				if err := l.giveBack(client, epoch, cost, epoch).Err(); err != nil {
					t.Errorf("%s: settling %d: %v", l.keys[0], cost, err)
				}
				l.decidesAlike(t, states, 1)
				l.spell(t, spelling)
				l.decidesAlike(t, states, 1)
				l.decidesAlike(t, states, 1)
				l.poison(t, func(redis.Cmdable, string) error { return nil })
			}
		}
	}
}

// decidesAlike decides with Redis as with states.
func (l *luaPlan) decidesAlike(t *testing.T, states []State, cost int64) {
	t.Helper()
	want := make([]Decision, 1)
	l.Decide(states, epoch, l.Each(cost), want)
	out, _, err := l.parse(l.decide(l.client, epoch, cost))
	if err != nil || !slices.Equal(out, want) {
		t.Errorf("%s: %+v, %v; want %+v", l.keys[0], out, err, want)
	}
}

// spell writes the number in the plan's first key in another way.
func (l *luaPlan) spell(t *testing.T, format string) {
	t.Helper()
	number, err := l.client.Get(ctx, l.keys[0]).Int64()
	testenv.OK(t, err)
	testenv.OK(t, l.client.Set(ctx, l.keys[0], fmt.Sprintf(format, number), redis.KeepTTL).Err())
}

// poison puts something into the key of the plan's limit.
func (l *luaPlan) poison(t *testing.T, write func(redis.Cmdable, string) error) {
	t.Helper()
	testenv.OK(t, l.client.Del(ctx, l.keys[0]).Err())
	testenv.OK(t, write(l.client, l.keys[0]))
}

// TestForeignSlots: slots are renewed and given back under a key that was something else.
func TestForeignSlots(t *testing.T) {
	t.Parallel()
	client := startRedis(t)
	for name, poison := range foreignKeys {
		l := newLuaPlan(t, client, mustPlan(t, slotsOfTwo), name)
		for _, tc := range []struct {
			script Script
			args   []any
			held   int64
		}{
			{RenewScript(), []any{30_000_000, 1, 1, 2, 1}, 2},
			{ReleaseScript(), []any{1, 1, 2, 1}, 0},
		} {
			l.poison(t, poison)
			again, err := client.Eval(ctx, tc.script.Source, l.keys, tc.args...).Int64()
			if err != nil || again != 2 {
				t.Errorf("%s: %d entries had ended, %v; want 2", name, again, err)
			}
			if held, err := client.ZCard(ctx, l.keys[0]).Result(); held != tc.held || err != nil {
				t.Errorf("%s: %d are held, %v; want %d", name, held, err, tc.held)
			}
		}
	}
}

// TestForeignTermsAndClock: neither a penalty's key nor that of a script's own clock has
// to be what it should be.
func TestForeignTermsAndClock(t *testing.T) {
	t.Parallel()
	client := startRedis(t)
	for name, poison := range foreignKeys {
		p := mustPlanWithTerms(t, Terms{Penalty: threeStrikes}, tenInASecond)
		keys := []string{"rl:{" + name + "}:gcra:1s", "rl:{" + name + "}:penalty", "rl:{" + name + "}:clock"}
		for _, key := range keys {
			testenv.OK(t, poison(client, key))
		}
		values, err := client.Eval(ctx, p.ScriptWithoutTime().Source, keys, (&asked{cost: 1}).args(p)...).Int64Slice()
		testenv.SameError(t, name, err, nil)
		if len(values) < 2 {
			t.Fatalf("%s: the reply is %v, want the time and what remains", name, values)
		}
		testenv.Same(t, name+": what remains", values[1], 9)
		if n := client.Exists(ctx, keys[1]).Val(); n != 0 {
			t.Errorf("%s: it is still there", name)
		}
	}
}

// refusal is how versions of Redis say that a user may not run a command in a script.
var refusal = regexp.MustCompile(`NOPERM|can't run this command`)

// TestForbiddenKeys: a key that this user may not read is an error, not a foreign key.
func TestForbiddenKeys(t *testing.T) {
	t.Parallel()
	client := startRedis(t)
	rules := []any{"ACL", "SETUSER", "blind", "on", ">p", "~*", "+@all", "-get", "-zrange", "-zcount", "-zrem", "-zadd"}
	testenv.OK(t, client.Do(ctx, rules...).Err())
	blind := redis.NewClient(&redis.Options{Addr: client.Options().Addr, Username: "blind", Password: "p"})
	defer blind.Close()
	for i, limit := range append(everyLimit(), hours(), slotsOfTwo, lentLimit) {
		p := mustPlan(t, limit)
		l := newLuaPlan(t, client, p, fmt.Sprint("blind", i))
		for n, call := range []*redis.Cmd{l.decide(blind, epoch, 1), l.giveBack(blind, epoch, 1, epoch)} {
			if err := call.Err(); !refusal.MatchString(fmt.Sprint(err)) {
				t.Errorf("%s: call %d: %v; want a refusal", l.keys[0], n, err)
			}
		}
	}
}

// FuzzForeignStrings: whatever bytes a key holds, of a state's length, too, deciding,
// giving back and owing do not fail, and the reply makes sense.
func FuzzForeignStrings(f *testing.F) {
	nan := binary.LittleEndian.AppendUint64(nil, math.Float64bits(math.NaN()))
	f.Add([]byte("12345678"))
	f.Add(slices.Concat(nan, nan, nan))
	f.Add(slices.Concat(nan, nan, nan, nan))
	f.Add(slices.Concat(nan, []byte{1, 2, 3, 4}))
	f.Add(slices.Repeat([]byte{0xff}, 32))
	client := startRedis(f)
	var plans []*luaPlan
	for i, limit := range append(everyLimit(), hours(), slotsOfTwo, lentLimit) {
		plans = append(plans, newLuaPlan(f, client, mustPlan(f, limit), fmt.Sprint("fuzz", i)))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		for _, l := range plans {
			for _, call := range []func() error{
				func() error { _, _, err := l.parse(l.decide(client, epoch, 1)); return err },
				func() error { return l.giveBack(client, epoch, 1, epoch).Err() },
				func() error { return l.giveBack(client, epoch, -1, epoch).Err() },
			} {
				testenv.OK(t, client.Set(ctx, l.keys[0], value, 0).Err())
				if err := call(); err != nil {
					t.Errorf("%s holds %q: %v", l.keys[0], value, err)
				}
			}
		}
	})
}
