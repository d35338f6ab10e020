package algo

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
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
		{Algorithm: TokenBucket, Units: 10, WindowMicros: 90e6, Steps: true},
		{Algorithm: GCRA, Units: 10, WindowMicros: 163e6, Queue: true, MaxDelayMicros: 30e6},
	}
}

// lentLimit is one of which workers take batches. It is alone in its plan.
var lentLimit = Limit{Algorithm: GCRA, Units: 10, WindowMicros: 60e6, LeaseMicros: 2e6}

// production runs a plan's own script, on Redis' clock.
func (l *luaPlan) production(script Script, cost int64, more ...any) *redis.Cmd {
	args := l.arguments(l.Each(cost), more...)
	if script == l.RefundScript() {
		args = l.refundArguments(l.Each(cost), more...)
	}
	return l.client.EvalSha(ctx, script.SHA1, l.keys, args...)
}

func TestScriptsOnRedisClock(t *testing.T) {
	t.Parallel()
	client := startRedis(t)
	p := mustPlan(t, everyLimit()...)
	l := newLuaPlan(t, client, p, "clock")
	for _, s := range []Script{p.Script(), p.RefundScript()} {
		if sha, err := client.ScriptLoad(ctx, s.Source).Result(); sha != s.SHA1 || err != nil {
			t.Fatalf("SCRIPT LOAD = %s, %v; want %s", sha, err, s.SHA1)
		}
	}
	before := redisMicros(t, client)
	reply := l.production(p.Script(), 3)
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
		what := fmt.Sprintf("the life of %+v", p.Limits()[i])
		testenv.SameError(t, what, err, nil)
		testenv.Within(t, what, ttl, reset-10*time.Second, reset+time.Millisecond)
	}
	testenv.OK(t, l.production(p.RefundScript(), 3, charged).Err())
	if n := client.Exists(ctx, l.keys...).Val(); n != 0 {
		t.Errorf("%d keys left after the refund", n)
	}
}

func redisMicros(t testing.TB, client *redis.Client) int64 {
	t.Helper()
	now, err := client.Time(ctx).Result()
	testenv.OK(t, err)
	return now.UnixMicro()
}

// snapshot is all that Redis holds under the keys, and when it expires.
func (l *luaPlan) snapshot(t testing.TB) string {
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
	for exhausted := range len(everyLimit()) + 1 {
		limits := append(everyLimit(), slotLimit(10))
		limits[exhausted].Units = 3
		l := newLuaPlan(t, client, mustPlan(t, limits...), fmt.Sprint(exhausted))
		now := int64(epoch)
		for step, cost := range []int64{4, 1, 3, 2, 0, 4} {
			l.nonce++
			before := l.snapshot(t)
			_, allowed, err := l.parse(l.decide(client, now, cost))
			testenv.OK(t, err)
			if wrote := l.snapshot(t) != before; wrote != (allowed && cost > 0) {
				t.Errorf("%+v, step %d, cost %d: allowed %v, and the keys changed: %v", limits[exhausted],
					step, cost, allowed, wrote)
			}
			now += 1e6
		}
	}
}

// TestRefundRestoresKeys: a charge and its refund at one instant leave keys that
// say what they said before, and expire when they would have.
func TestRefundRestoresKeys(t *testing.T) {
	t.Parallel()
	client := startRedis(t)
	l := newLuaPlan(t, client, mustPlan(t, everyLimit()...), "refund")
	now := int64(epoch)
	for step := range 8 {
		before := l.says(t, now)
		cost := int64(1 + step%3)
		_, allowed, err := l.parse(l.decide(client, now, cost))
		if err != nil || !allowed {
			t.Fatalf("step %d: %v, %v", step, allowed, err)
		}
		testenv.OK(t, l.giveBack(client, now, cost, now).Err())
		if after := l.says(t, now); after != before {
			t.Errorf("step %d:\n%swant\n%s", step, after, before)
		}
		if _, allowed, err := l.parse(l.decide(client, now, 1)); err != nil || !allowed {
			t.Fatalf("step %d: %v, %v", step, allowed, err)
		}
		now += 3e6
	}
}

// says tells what the limits report, and when their keys expire.
func (l *luaPlan) says(t testing.TB, now int64) string {
	t.Helper()
	out, _, err := l.parse(l.decide(l.client, now, 0))
	testenv.OK(t, err)
	var all strings.Builder
	for i, d := range out {
		fmt.Fprintf(&all, "%s %+v %d\n", l.keys[i], d, milliseconds(l.client.PExpireTime(ctx, l.keys[i])))
	}
	return all.String()
}

// TestRefundOfWhatHasGone creates no key, and gives nothing to later windows.
func TestRefundOfWhatHasGone(t *testing.T) {
	t.Parallel()
	client := startRedis(t)
	l := newLuaPlan(t, client, mustPlan(t, everyLimit()...), "gone")
	testenv.OK(t, l.giveBack(client, epoch, 1, epoch-1).Err())
	if n := client.Exists(ctx, l.keys...).Val(); n != 0 {
		t.Errorf("a refund created %d keys", n)
	}
	if _, allowed, err := l.parse(l.decide(client, epoch, 5)); err != nil || !allowed {
		t.Fatal(allowed, err)
	}
	before := l.snapshot(t)
	testenv.OK(t, l.giveBack(client, epoch, 2, epoch-200e6).Err())
	if after := l.snapshot(t); after != before {
		t.Errorf("a refund of an earlier window changed\n%sto\n%s", before, after)
	}
}

// TestWithoutTime decides and refunds on a Redis that refuses TIME, as by Redis'
// own clock, and leaves nothing behind that does not expire soon.
func TestWithoutTime(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--rename-command", "TIME", "")
	client := redis.NewClient(&redis.Options{Addr: server.Addr, Protocol: 2})
	t.Cleanup(func() { client.Close() })
	p := mustPlan(t, everyLimit()...)
	l := newLuaPlan(t, client, p, "without")
	clock := "rl:{without}" + ClockSuffix
	run := func(s Script, cost int64, more ...any) *redis.Cmd {
		return client.Eval(ctx, s.Source, append(slices.Clone(l.keys), clock), l.arguments(p.Each(cost), more...)...)
	}
	if err := client.Eval(ctx, p.Script().Source, l.keys, l.arguments(p.Each(1))...).Err(); err == nil {
		t.Fatal("this Redis takes TIME")
	}
	for n := range int64(3) {
		before := time.Now().UnixMilli()
		reply := run(p.ScriptWithoutTime(), 2)
		out, allowed, err := l.parse(reply)
		what := fmt.Sprintf("request %d", n+1)
		testenv.SameError(t, what, err, nil)
		testenv.Same(t, what+": that it is allowed", allowed, true)
		testenv.Same(t, what+": what remains", out[0].Remaining, 8-2*n)
		at := reply.Val().([]any)[0].(int64)
		testenv.Same(t, what+": the time's microseconds", at%1000, 0)
		testenv.Within(t, what+": the time in ms", at/1000, before, time.Now().UnixMilli())
		if ttl := client.PTTL(ctx, clock).Val(); ttl <= 0 || ttl > time.Minute {
			t.Errorf("the clock's key expires in %v", ttl)
		}
		if n == 2 {
			testenv.OK(t, run(p.RefundScriptWithoutTime(), 2, at).Err())
		}
	}
	if out, _, err := l.parse(run(p.ScriptWithoutTime(), 0)); err != nil || out[0].Remaining != 6 {
		t.Errorf("after the refund: %+v, %v", out, err)
	}
}

// TestCalendarWithoutTime: the clock of a key is asked for the window, too.
func TestCalendarWithoutTime(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--rename-command", "TIME", "")
	client := redis.NewClient(&redis.Options{Addr: server.Addr, Protocol: 2})
	t.Cleanup(func() { client.Close() })
	now := time.Now().UnixMicro()
	for _, tc := range []struct {
		name   string
		bounds Bounds
		err    error
	}{
		{"its own", boundsAround(&Limit{WindowMicros: 366 * 24 * 3600e6}, now), nil},
		{"those of another time", hours().Bounds, ErrOtherTime},
	} {
		limit := hours()
		limit.Bounds = tc.bounds
		l := newLuaPlan(t, client, mustPlan(t, limit), tc.name)
		keys := append(slices.Clone(l.keys), "rl:{"+tc.name+"}"+ClockSuffix)
		out, _, err := l.parse(client.Eval(ctx, l.ScriptWithoutTime().Source, keys, l.arguments(l.Each(1))...))
		testenv.SameError(t, tc.name, err, tc.err)
		if err == nil {
			testenv.Same(t, tc.name+": what remains", out[0].Remaining, 9)
			testenv.Same(t, tc.name+": the begin of the window", out[0].BeginsMicros, tc.bounds[1])
		}
	}
}
