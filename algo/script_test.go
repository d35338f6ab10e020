package algo

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// everyLimit has one limit of each algorithm and variant.
var everyLimit = []Limit{
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

// lentLimit is one of which workers take batches. It is alone in its plan.
var lentLimit = Limit{Algorithm: GCRA, Units: 10, WindowMicros: 60e6, LeaseMicros: 2e6}

func TestScriptsOnRedisClock(t *testing.T) {
	t.Parallel()
	client := startRedis(t)
	l := onRedis(client)
	l.asSent = true
	w := newTwins(t, l, mustPlan(t, everyLimit...), "clock")
	for _, s := range []Script{w.Script(), w.RefundScript()} {
		if sha, err := client.ScriptLoad(ctx, s.Source).Result(); sha != s.SHA1 || err != nil {
			t.Fatalf("SCRIPT LOAD = %s, %v; want %s", sha, err, s.SHA1)
		}
	}
	before := client.Time(ctx).Val().UnixMicro()
	r, out, _, err := w.ruleInLua(t, 0, costing(3))
	if err != nil || !r.Allowed {
		t.Fatalf("%+v %+v %v", r, out, err)
	}
	testenv.Within(t, "the reply's time", r.AtMicros, before, client.Time(ctx).Val().UnixMicro())
	for i, d := range out {
		what := fmt.Sprintf("%+v: ", w.limits[i])
		testenv.Same(t, what+"what remains", d.Remaining, 7)
		ttl, err := client.PTTL(ctx, w.keys[i]).Result()
		reset := time.Duration(d.ResetAfterMicros) * time.Microsecond
		testenv.SameError(t, what, err, nil)
		testenv.Within(t, what+"its life", ttl, reset-10*time.Second, reset+time.Millisecond)
	}
	_, err = w.settleInLua(t, 0, charge{r.AtMicros, 0, w.Each(3)})
	testenv.OK(t, err)
	testenv.Same(t, "keys left after the refund", client.Exists(ctx, w.keys...).Val(), 0)
}

// snapshot is all that Redis holds under the keys, and when it expires.
func (w *twins) snapshot(client *redis.Client) string {
	var all []any
	for _, key := range w.keys {
		all = append(all, client.Dump(ctx, key).Val(), client.PExpireTime(ctx, key).Val())
	}
	return fmt.Sprintf("%q", all)
}

// TestDeniedWritesNothing denies by each limit in turn, on top of different
// states, and asks for a cost of 0 as well.
func TestDeniedWritesNothing(t *testing.T) {
	t.Parallel()
	client := startRedis(t)
	for exhausted := range len(everyLimit) + 1 {
		limits := append(everyLimit, slotLimit(10))
		limits[exhausted].Units = 3
		w := newTwins(t, onRedis(client), mustPlan(t, limits...), fmt.Sprint(exhausted))
		now := int64(epoch)
		for step, cost := range []int64{4, 1, 3, 2, 0, 4} {
			w.nonce++
			before := w.snapshot(client)
			_, allowed := w.decide(t, now, cost)
			if wrote := w.snapshot(client) != before; wrote != (allowed && cost > 0) {
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
	w := newTwins(t, onRedis(startRedis(t)), mustPlan(t, everyLimit...), "refund")
	now := int64(epoch)
	var says [2]string
	for step := range 8 {
		cost := int64(1 + step%3)
		for i := range says {
			if i == 1 {
				w.decide(t, now, cost)
				w.refund(t, now, now, cost)
			}
			out, _ := w.decide(t, now, 0)
			w.expire(t, func(ms []int64) { says[i] = fmt.Sprintf("%+v %d", out, ms) })
		}
		testenv.Same(t, fmt.Sprintf("step %d: what the limits say", step), says[1], says[0])
		_, allowed := w.decide(t, now, 1)
		testenv.Same(t, "that one more is allowed", allowed, true)
		now += 3e6
	}
}

// TestRefundOfWhatHasGone creates no key, and gives nothing to later windows.
func TestRefundOfWhatHasGone(t *testing.T) {
	t.Parallel()
	client := startRedis(t)
	w := newTwins(t, onRedis(client), mustPlan(t, everyLimit...), "gone")
	w.refund(t, epoch-1, epoch, 1)
	testenv.Same(t, "keys that a refund has created", client.Exists(ctx, w.keys...).Val(), 0)
	w.decide(t, epoch, 5)
	before := w.snapshot(client)
	w.refund(t, epoch-200e6, epoch, 2)
	testenv.Same(t, "the keys after a refund of an earlier window", w.snapshot(client), before)
}

// TestWithoutTime decides and refunds on a Redis that refuses TIME, as by Redis'
// own clock, and leaves nothing behind that does not expire soon.
func TestWithoutTime(t *testing.T) {
	t.Parallel()
	client := startRedis(t, "--rename-command", "TIME", "")
	l := onRedis(client)
	l.asSent = true
	w := newTwins(t, l, mustPlan(t, everyLimit...), "without")
	if _, _, _, err := w.ruleInLua(t, 0, costing(1)); err == nil {
		t.Fatal("this Redis takes TIME")
	}
	w.withoutTime()
	for n := range int64(4) {
		before := time.Now().UnixMilli()
		r, out, _, err := w.ruleInLua(t, 0, costing(2))
		what := fmt.Sprintf("request %d", n+1)
		testenv.SameError(t, what, err, nil)
		testenv.Same(t, what+": that it is allowed", r.Allowed, true)
		testenv.Same(t, what+": what remains", out[0].Remaining, 8-2*min(n, 2))
		testenv.Same(t, what+": the time's microseconds", r.AtMicros%1000, 0)
		testenv.Within(t, what+": the time in ms", r.AtMicros/1000, before, time.Now().UnixMilli())
		testenv.Within(t, what+": the life of the clock's key", client.PTTL(ctx, w.clock[0]).Val(), 1, time.Minute)
		if n == 2 { // the next one has its room again
			_, err := w.settleInLua(t, 0, charge{r.AtMicros, 0, w.Each(2)})
			testenv.OK(t, err)
		}
	}
}

// TestCalendarWithoutTime: the clock of a key is asked for the window, too.
func TestCalendarWithoutTime(t *testing.T) {
	t.Parallel()
	client := startRedis(t, "--rename-command", "TIME", "")
	now := time.Now().UnixMicro()
	for _, tc := range []struct {
		name   string
		bounds Bounds
		err    error
	}{
		{"its own", boundsAround(&Limit{WindowMicros: 366 * 24 * 3600e6}, now), nil},
		{"those of another time", hours.Bounds, ErrOtherTime},
	} {
		limit := hours
		limit.Bounds = tc.bounds
		w := newTwins(t, onRedis(client), mustPlan(t, limit), tc.name)
		w.withoutTime()
		_, out, _, err := w.ruleInLua(t, 0, costing(1))
		testenv.SameError(t, tc.name, err, tc.err)
		if err == nil {
			testenv.Same(t, tc.name+": what remains", out[0].Remaining, 9)
			testenv.Same(t, tc.name+": the begin of the window", out[0].BeginsMicros, tc.bounds[1])
		}
	}
}
