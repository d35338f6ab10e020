package algo

import (
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// TestSlotsInRedis walks through what a worker does, on the scripts as they are sent:
// by Redis' clock and, where TIME is refused, by a key's.
func TestSlotsInRedis(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		options []string
		scripts func(p *Plan) (check, refund, renew Script)
		clock   []string
	}{
		{
			name:    "TIME",
			scripts: func(p *Plan) (a, b, c Script) { return p.Script(), p.RefundScript(), RenewScript() },
		},
		{
			name: "without TIME", options: []string{"--rename-command", "TIME", ""}, clock: []string{"rl:{a}" + ClockSuffix},
			scripts: func(p *Plan) (a, b, c Script) {
				return p.ScriptWithoutTime(), p.RefundScriptWithoutTime(), RenewScriptWithoutTime()
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			client := redis.NewClient(&redis.Options{Addr: redistest.Start(t, c.options...).Addr, Protocol: 2})
			t.Cleanup(func() { client.Close() })
			p := mustPlan(t, Limit{Algorithm: FixedWindow, Units: 100, WindowMicros: 366 * 86400e6}, slotLimit(3))
			check, refund, renew := c.scripts(p)
			l := &luaPlan{Plan: p, client: client, keys: []string{"rl:{a}:fixed_window:366d", "rl:{a}:concurrency"}}
			run := func(s Script, keys []string, args ...any) *redis.Cmd {
				return client.Eval(ctx, s.Source, append(slices.Clone(keys), c.clock...), args...)
			}
			ask := func(nonce int64, costs ...int64) []Decision {
				l.nonce = nonce
				out, _, err := l.parse(run(check, l.keys, l.arguments(costs)...))
				if err != nil {
					t.Fatal(err)
				}
				return out
			}
			giveBack := func(nonce int64, costs ...int64) (gone int64) {
				l.nonce = nonce
				gone, err := run(refund, l.keys, l.arguments(costs, 1)...).Int64()
				if err != nil {
					t.Fatal(err)
				}
				return gone
			}
			if d := ask(1, 1, 2); d[1].Remaining != 1 || d[1].ResetAfterMicros != 0 {
				t.Errorf("the first request: %+v", d)
			}
			if d := ask(2, 1, 2); d[1].Allowed || d[1].RetryAfterMicros != 1e6 || d[0].Remaining != 99 {
				t.Errorf("all or nothing: %+v", d)
			}
			if d := ask(3, 1, 4); d[1].RetryAfterMicros != Never {
				t.Errorf("a cost above the limit: %+v", d)
			}
			if gone := giveBack(2, 0, 2); gone != 1 {
				t.Error("a release of what was never taken found something")
			}
			if d := ask(4, 1, 1); d[1].Remaining != 0 {
				t.Errorf("the rest: %+v", d)
			}
			if gone := giveBack(1, 0, 2); gone != 0 {
				t.Error("a release found nothing")
			}
			if gone := giveBack(1, 0, 2); gone != 1 {
				t.Error("a second release found something")
			}
			if d := ask(0, 0, 0); d[1].Remaining != 2 || d[0].Remaining != 98 {
				t.Errorf("after the release: %+v", d)
			}
			// A Redis that restarted empty.
			client.Del(ctx, l.keys[1])
			if n, err := run(renew, l.keys[1:], int64(testTTL), 4, 1, 5, 3).Int64(); n != 2 || err != nil {
				t.Errorf("%d entries were missing, %v; want 2", n, err)
			}
			if n, err := run(renew, l.keys[1:], int64(testTTL), 4, 1, 5, 3).Int64(); n != 0 || err != nil {
				t.Errorf("%d entries were missing, %v; want none", n, err)
			}
			if d := ask(6, 1, 1); d[1].Allowed || d[1].Remaining != 0 {
				t.Errorf("above the limit: %+v", d)
			}
			if ttl := client.PTTL(ctx, l.keys[1]).Val(); ttl > 30*time.Second+time.Millisecond || ttl < 29*time.Second {
				t.Errorf("the key expires in %v", ttl)
			}
			release := ReleaseScript().Source
			for _, want := range []int64{1, 2} {
				if gone, err := client.Eval(ctx, release, l.keys[1:], 5, 3, 77, 1).Int64(); gone != want || err != nil {
					t.Errorf("%d entries were gone, %v; want %d", gone, err, want)
				}
			}
			if d := ask(0, 0, 0); d[1].Remaining != 2 {
				t.Errorf("after the release: %+v", d)
			}
			giveBack(4, 0, 1)
			if n := client.Exists(ctx, l.keys[1]).Val(); n != 0 {
				t.Error("the key is left when nobody holds a slot")
			}
		})
	}
}
