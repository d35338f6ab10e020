package algo

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestSlotsInRedis walks through what a worker does, on the scripts as they are sent:
// by Redis' clock and, where TIME is refused, by a key's.
func TestSlotsInRedis(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options []string
		renew   Script
	}{
		"TIME":         {nil, RenewScript()},
		"without TIME": {[]string{"--rename-command", "TIME", ""}, RenewScriptWithoutTime()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := startRedis(t, c.options...)
			l := onRedis(client)
			l.asSent = true
			w := newTwins(t, l, mustPlan(t, Limit{Algorithm: FixedWindow, Units: 100, WindowMicros: 366 * 86400e6},
				slotLimit(3)), "slots")
			if c.options != nil {
				w.withoutTime()
			}
			slotsOf := w.keys[1:]
			changeSlots := func(s Script, args ...any) (missing int64) {
				w.call(t, s, 0, append(slotsOf[:1:1], w.clock...), args, func(reply *redis.Cmd) {
					n, err := reply.Int64()
					testenv.OK(t, err)
					missing = n
				})
				return missing
			}
			for _, step := range []struct {
				name                string
				nonce, costs, slots int64 // costs of the window; below 0 the slots are given back
				window, left, wait  int64 // what remains of both, and the wait
				missing             int64 // entries, of what is given back
			}{
				{name: "the first", nonce: 1, costs: 1, slots: 2, window: 99, left: 1},
				{name: "too large", nonce: 2, costs: 1, slots: 2, window: 99, left: 1, wait: 1e6},
				{name: "above the limit", nonce: 3, costs: 1, slots: 4, window: 99, left: 1, wait: Never},
				{name: "a refund of what took none", nonce: 2, costs: -1, slots: 2, missing: 1},
				{name: "the rest", nonce: 4, costs: 1, slots: 1, window: 98},
				{name: "a refund", nonce: 1, costs: -1, slots: 2},
				{name: "the same refund", nonce: 1, costs: -1, slots: 2, missing: 1},
				{name: "a report", window: 98, left: 2},
			} {
				if w.nonce = step.nonce; step.costs < 0 {
					missing, err := w.settleInLua(t, 0, charge{1, step.nonce, []int64{0, step.slots}})
					testenv.SameError(t, step.name, err, nil)
					testenv.Same(t, step.name+": entries that are missing", missing, step.missing)
					continue
				}
				_, out, _, err := w.ruleInLua(t, 0, costing(step.costs, step.slots))
				testenv.SameError(t, step.name, err, nil)
				testenv.Same(t, step.name+": what remains of the window", out[0].Remaining, step.window)
				slots := Decision{Allowed: step.wait == 0, Remaining: step.left, RetryAfterMicros: step.wait}
				testenv.Same(t, step.name+": the slots", out[1], slots)
			}

			// A Redis that has lost its data learns of slots by their renewal.
			client.Del(ctx, slotsOf[0])
			for _, want := range []int64{2, 0} {
				missing := changeSlots(c.renew, int64(testTTL), 4, 1, 5, 3)
				testenv.Same(t, "entries missing at a renewal", missing, want)
			}
			_, out, _, _ := w.ruleInLua(t, 0, costing(1, 1))
			testenv.Same(t, "the slots of a request above the limit", out[1], Decision{RetryAfterMicros: 1e6})
			ttl := client.PTTL(ctx, slotsOf[0]).Val()
			testenv.Within(t, "the life of the key", ttl, 29*time.Second, 30*time.Second+time.Millisecond)
			for _, want := range []int64{1, 2} {
				missing := changeSlots(ReleaseScript(), 5, 3, 77, 1)
				testenv.Same(t, "entries missing at a release of two", missing, want)
			}
			changeSlots(ReleaseScript(), 4, 1)
			testenv.Same(t, "keys left when no slot is held", client.Exists(ctx, slotsOf[0]).Val(), 0)
		})
	}
}
