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
		for i, limit := range append(everyLimit, hours, slotsOfTwo, lentLimit) {
			w := newTwins(t, onRedis(client), mustPlan(t, limit), fmt.Sprintf("%s-%d", name, i))
			key := w.keys[0]
			for _, settles := range []bool{false, true} {
				for _, cost := range []int64{1, 0, 99, -1} {
					testenv.OK(t, client.Del(ctx, key).Err())
					testenv.OK(t, poison(client, key))
					if w.states, w.nonce = make([]State, 1), 1; settles {
						w.refund(t, epoch, epoch, cost)
						w.decide(t, epoch, 1)
						continue
					}
					w.decide(t, epoch, cost)
					w.nonce++
					w.decide(t, epoch, cost)
					if n := client.Exists(ctx, key).Val(); n == 1 != (len(w.states[0]) > 0) {
						t.Errorf("%s: %d keys after a cost of %d", key, n, cost)
					}
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
	for i, limit := range []Limit{day, hours} {
		for _, spelling := range []string{"%#x", " %d", "+%d", "%d.0"} {
			for _, gives := range []int64{-2, 2} { // owed, given back
				w := newTwins(t, onRedis(client), mustPlan(t, limit), fmt.Sprint("spelled", spelling, i, gives))
				w.decide(t, epoch, 3)
				for _, next := range []func(){
					func() { w.refund(t, epoch, epoch, gives); w.decide(t, epoch, 1) },
					func() { w.decide(t, epoch, 1); w.decide(t, epoch, 1) },
				} {
					number, err := client.Get(ctx, w.keys[0]).Int64()
					testenv.OK(t, err)
					testenv.OK(t, client.Set(ctx, w.keys[0], fmt.Sprintf(spelling, number), redis.KeepTTL).Err())
					next()
				}
			}
		}
	}
}

// TestForeignSlots: slots are renewed and given back under a key that was something else.
func TestForeignSlots(t *testing.T) {
	t.Parallel()
	client := startRedis(t)
	for name, poison := range foreignKeys {
		for _, tc := range []struct {
			script Script
			args   []any
			held   int64
		}{
			{RenewScript(), []any{30_000_000, 1, 1, 2, 1}, 2},
			{ReleaseScript(), []any{1, 1, 2, 1}, 0},
		} {
			testenv.OK(t, client.Del(ctx, name).Err())
			testenv.OK(t, poison(client, name))
			again, err := client.Eval(ctx, tc.script.Source, []string{name}, tc.args...).Int64()
			if err != nil || again != 2 {
				t.Errorf("%s: %d entries had ended, %v; want 2", name, again, err)
			}
			if held, err := client.ZCard(ctx, name).Result(); held != tc.held || err != nil {
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
		plan := mustPlanWithTerms(t, Terms{Penalty: threeStrikes}, tenInASecond)
		w := newTwins(t, onRedis(client), plan, name)
		w.withoutTime()
		testenv.OK(t, client.Del(ctx, w.clock...).Err())
		for _, key := range slices.Concat(w.keys, w.ruleKeys, w.clock) {
			testenv.OK(t, poison(client, key))
		}
		_, out, _, err := w.ruleInLua(t, 0, costing(1))
		testenv.SameError(t, name, err, nil)
		testenv.Same(t, name+": what remains", out[0].Remaining, 9)
		if n := client.Exists(ctx, w.ruleKeys...).Val(); n != 0 {
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
	for i, limit := range append(everyLimit, hours, slotsOfTwo, lentLimit) {
		w := newTwins(t, onRedis(blind), mustPlan(t, limit), fmt.Sprint("blind", i))
		_, _, _, deciding := w.ruleInLua(t, epoch, costing(1))
		_, settling := w.settleInLua(t, epoch, charge{epoch, 0, []int64{1}})
		for _, err := range []error{deciding, settling} {
			if !refusal.MatchString(fmt.Sprint(err)) {
				t.Errorf("%s: %v; want a refusal", w.keys[0], err)
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
	var plans []*twins
	for i, limit := range append(everyLimit, hours, slotsOfTwo, lentLimit) {
		plans = append(plans, newTwins(f, onRedis(client), mustPlan(f, limit), fmt.Sprint("fuzz", i)))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		for _, w := range plans {
			for _, gives := range []int64{0, 1, -1} {
				testenv.OK(t, client.Set(ctx, w.keys[0], value, 0).Err())
				what := fmt.Sprintf("%s holds %q, and gives back %d", w.keys[0], value, gives)
				if gives == 0 {
					_, _, _, err := w.ruleInLua(t, epoch, costing(1))
					testenv.SameError(t, what, err, nil)
				} else {
					_, err := w.settleInLua(t, epoch, charge{epoch, 0, []int64{gives}})
					testenv.SameError(t, what, err, nil)
				}
			}
		}
	})
}
