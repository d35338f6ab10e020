package algo

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// everyLimit is one limit of each algorithm and variant.
func everyLimit() []Limit {
	return []Limit{
		{Algorithm: FixedWindow, Units: 10, WindowMicros: 60e6},
		{Algorithm: FixedWindow, Units: 10, WindowMicros: 61e6, FromFirstRequest: true},
		{Algorithm: SlidingWindowLog, Units: 10, WindowMicros: 60e6},
		{Algorithm: SlidingWindowCounter, Units: 10, WindowMicros: 60e6},
		{Algorithm: SlidingWindowCounter, Units: 10, WindowMicros: 61e6, SubWindows: 10},
		{Algorithm: TokenBucket, Units: 10, WindowMicros: 60e6},
		{Algorithm: LeakyBucket, Units: 10, WindowMicros: 60e6},
		{Algorithm: LeakyBucket, Units: 10, WindowMicros: 61e6, Queue: true, MaxDelayMicros: 600e6},
		{Algorithm: GCRA, Units: 10, WindowMicros: 60e6},
	}
}

// production runs a policy's own script, on Redis' clock.
func (l *luaPolicy) production(ctx context.Context, script Script, variable ...any) *redis.Cmd {
	for _, a := range l.Args() {
		variable = append(variable, a)
	}
	return l.client.EvalSha(ctx, script.SHA1, l.keys, variable...)
}

func TestScriptsOnRedisClock(t *testing.T) {
	t.Parallel()
	client := startRedis(t)
	p := mustPolicy(t, everyLimit()...)
	l := newLuaPolicy(t, client, p, "clock")
	for _, s := range []Script{p.Script(), p.RefundScript()} {
		if sha, err := client.ScriptLoad(ctx, s.Source).Result(); sha != s.SHA1 || err != nil {
			t.Fatalf("SCRIPT LOAD = %s, %v; want %s", sha, err, s.SHA1)
		}
	}
	before := redisMicros(t, client)
	reply := l.production(ctx, p.Script(), 3, "nonce")
	out, allowed, err := l.parse(reply)
	if err != nil || !allowed {
		t.Fatalf("%v %+v %v", allowed, out, err)
	}
	charged := reply.Val().([]any)[0].(int64)
	if after := redisMicros(t, client); charged < before || charged > after {
		t.Errorf("the reply's time is %d, want %d to %d", charged, before, after)
	}
	for i, d := range out {
		if d.Remaining != 7 {
			t.Errorf("%+v: remaining %d, want 7", p.Limits()[i], d.Remaining)
		}
		ttl, err := client.PTTL(ctx, l.keys[i]).Result()
		reset := time.Duration(d.ResetAfterMicros) * time.Microsecond
		if err != nil || ttl > reset+time.Millisecond || ttl < reset-10*time.Second {
			t.Errorf("%+v expires in %v, %v; want %v", p.Limits()[i], ttl, err, reset)
		}
	}
	if err := l.production(ctx, p.RefundScript(), 3, "nonce", charged).Err(); err != nil {
		t.Fatal(err)
	}
	if n := client.Exists(ctx, l.keys...).Val(); n != 0 {
		t.Errorf("%d keys left after the refund", n)
	}
}

func redisMicros(t testing.TB, client *redis.Client) int64 {
	t.Helper()
	now, err := client.Time(ctx).Result()
	if err != nil {
		t.Fatal(err)
	}
	return now.UnixMicro()
}

// snapshot is all that Redis holds under the keys, and when it expires.
func (l *luaPolicy) snapshot(t testing.TB) string {
	t.Helper()
	var all strings.Builder
	for _, key := range l.keys {
		dump, err := l.client.Dump(ctx, key).Result()
		if err != nil && err != redis.Nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&all, "%s %q %d\n", key, dump, milliseconds(l.client.PExpireTime(ctx, key)))
	}
	return all.String()
}

// TestDeniedWritesNothing denies by each limit in turn, on top of different
// states, and asks for a cost of 0 as well.
func TestDeniedWritesNothing(t *testing.T) {
	t.Parallel()
	client := startRedis(t)
	for exhausted := range everyLimit() {
		limits := everyLimit()
		limits[exhausted].Units = 3
		l := newLuaPolicy(t, client, mustPolicy(t, limits...), fmt.Sprint(exhausted))
		now := int64(epoch)
		for step, cost := range []int64{4, 1, 3, 2, 0, 4} {
			before := l.snapshot(t)
			_, allowed, err := l.parse(l.decide(client, now, cost, fmt.Sprint(step)))
			if err != nil {
				t.Fatal(err)
			}
			if wrote := l.snapshot(t) != before; wrote != (allowed && cost > 0) {
				t.Errorf("%+v, step %d, cost %d: allowed %v, and the keys changed: %v", limits[exhausted], step, cost, allowed, wrote)
			}
			now += 1e6
		}
	}
}

// TestRefundRestoresKeys: a charge and its refund at one instant leave keys as
// they were, to the byte.
func TestRefundRestoresKeys(t *testing.T) {
	t.Parallel()
	client := startRedis(t)
	l := newLuaPolicy(t, client, mustPolicy(t, everyLimit()...), "refund")
	now := int64(epoch)
	for step := range 8 {
		before := l.snapshot(t)
		cost := int64(1 + step%3)
		_, allowed, err := l.parse(l.decide(client, now, cost, "given back"))
		if err != nil || !allowed {
			t.Fatalf("step %d: %v, %v", step, allowed, err)
		}
		if err := l.giveBack(client, now, cost, "given back", now).Err(); err != nil {
			t.Fatal(err)
		}
		if after := l.snapshot(t); after != before {
			t.Errorf("step %d:\n%swant\n%s", step, after, before)
		}
		if _, allowed, err := l.parse(l.decide(client, now, 1, fmt.Sprint(step))); err != nil || !allowed {
			t.Fatalf("step %d: %v, %v", step, allowed, err)
		}
		now += 3e6
	}
}

// TestRefundOfWhatHasGone creates no key, and gives nothing to later windows.
func TestRefundOfWhatHasGone(t *testing.T) {
	t.Parallel()
	client := startRedis(t)
	l := newLuaPolicy(t, client, mustPolicy(t, everyLimit()...), "gone")
	if err := l.giveBack(client, epoch, 1, "n", epoch-1).Err(); err != nil {
		t.Fatal(err)
	}
	if n := client.Exists(ctx, l.keys...).Val(); n != 0 {
		t.Errorf("a refund created %d keys", n)
	}
	if _, allowed, err := l.parse(l.decide(client, epoch, 5, "later")); err != nil || !allowed {
		t.Fatal(allowed, err)
	}
	before := l.snapshot(t)
	if err := l.giveBack(client, epoch, 2, "n", epoch-200e6).Err(); err != nil {
		t.Fatal(err)
	}
	if after := l.snapshot(t); after != before {
		t.Errorf("a refund of an earlier window changed\n%sto\n%s", before, after)
	}
}

// TestLogMembersAreUnique: 64 writers at once on one key, of which many share a
// microsecond, leave an entry for each unit.
func TestLogMembersAreUnique(t *testing.T) {
	t.Parallel()
	const writers, calls, cost = 64, 50, 3
	client := startRedis(t)
	p := mustPolicy(t, Limit{Algorithm: SlidingWindowLog, Units: MaxUnits, WindowMicros: 3600e6})
	l := newLuaPolicy(t, client, p, "members")
	if err := client.ScriptLoad(ctx, p.Script().Source).Err(); err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	for w := range writers {
		wait.Go(func() {
			pipe := client.Pipeline()
			for n := range calls {
				args := []any{cost, w*calls + n}
				for _, a := range p.Args() {
					args = append(args, a)
				}
				pipe.EvalSha(ctx, p.Script().SHA1, l.keys, args...)
			}
			if _, err := pipe.Exec(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if n, err := client.ZCard(ctx, l.keys[0]).Result(); n != writers*calls*cost || err != nil {
		t.Errorf("%d entries, %v; want %d", n, err, writers*calls*cost)
	}
}

// TestLargeLog reports how long calls on a log of 10,000 entries hold Redis up.
func TestLargeLog(t *testing.T) {
	t.Parallel()
	const entries = 10_000
	client := startRedis(t)
	p := mustPolicy(t, Limit{Algorithm: SlidingWindowLog, Units: entries, WindowMicros: 60e6})
	l := newLuaPolicy(t, client, p, "large")
	call := func(what string, now, cost, wantRemaining int64) {
		client.ConfigResetStat(ctx)
		out, _, err := l.parse(l.decide(client, now, cost, what))
		if err != nil || out[0].Remaining != wantRemaining {
			t.Errorf("%s: %+v, %v; want %d remaining", what, out, err, wantRemaining)
		}
		t.Logf("%-42s %s us", what, usecOfEvalsha(t, client))
	}
	for i := range int64(entries) {
		if i == entries-1 {
			call("one more after 9,999", epoch+i, 1, 0)
		} else if err := l.decide(client, epoch+i, 1, "fill").Err(); err != nil {
			t.Fatal(err)
		}
	}
	call("denied, wants the oldest entry gone", epoch+entries, 1, 0)
	call("denied, wants half of the entries gone", epoch+entries, entries/2, 0)
	call("10,000 entries expire at once", epoch+61e6, 1, entries-1)
	call("9,999 units in one call", epoch+61e6, entries-1, 0)
}

// usecOfEvalsha is how long Redis spent in the last EVALSHA.
// https://redis.io/docs/latest/commands/info/
func usecOfEvalsha(t testing.TB, client *redis.Client) string {
	t.Helper()
	info, err := client.Info(ctx, "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(info, "cmdstat_evalsha:calls=1,usec=")
	usec, _, _ := strings.Cut(rest, ",")
	if !ok {
		t.Fatalf("no single EVALSHA in %s", info)
	}
	return usec
}
