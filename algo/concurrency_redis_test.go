package algo

import (
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
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
			w := &slotWorker{
				luaPlan: luaPlan{Plan: p, client: client, keys: []string{"rl:{a}:fixed_window:366d", "rl:{a}:concurrency"}},
				clock:   c.clock,
			}
			w.check, w.refund, w.renew = c.scripts(p)
			_, slots := w.ask(t, 1, 1, 2)
			testenv.Same(t, "what the first request leaves", slots.Remaining, 1)
			testenv.Same(t, "its reset", slots.ResetAfterMicros, 0)
			window, slots := w.ask(t, 2, 1, 2)
			testenv.Same(t, "that the second, which is too large, is allowed", slots.Allowed, false)
			testenv.Same(t, "its wait", slots.RetryAfterMicros, 1e6)
			testenv.Same(t, "what it leaves of the window", window.Remaining, 99)
			_, slots = w.ask(t, 3, 1, 4)
			testenv.Same(t, "the wait of a cost above the limit", slots.RetryAfterMicros, Never)
			testenv.Same(t, "entries missing of a request that took none", w.gone(t, 2, 0, 2), 1)
			_, slots = w.ask(t, 4, 1, 1)
			testenv.Same(t, "what the rest leaves", slots.Remaining, 0)
			testenv.Same(t, "entries missing of a request that took some", w.gone(t, 1, 0, 2), 0)
			testenv.Same(t, "entries missing when it is given back twice", w.gone(t, 1, 0, 2), 1)
			window, slots = w.ask(t, 0, 0, 0)
			testenv.Same(t, "slots after the release", slots.Remaining, 2)
			testenv.Same(t, "the window after the release", window.Remaining, 98)

			// A Redis that has lost its data learns of slots by their renewal.
			w.client.Del(ctx, w.keys[1])
			testenv.Same(t, "entries missing at the first renewal", w.missing(t), 2)
			testenv.Same(t, "entries missing at the second renewal", w.missing(t), 0)
			_, slots = w.ask(t, 6, 1, 1)
			testenv.Same(t, "that a request above the limit is allowed", slots.Allowed, false)
			testenv.Same(t, "what it leaves", slots.Remaining, 0)
			ttl := w.client.PTTL(ctx, w.keys[1]).Val()
			testenv.Within(t, "the life of the key", ttl, 29*time.Second, 30*time.Second+time.Millisecond)

			for _, want := range []int64{1, 2} {
				reply := w.client.Eval(ctx, ReleaseScript().Source, w.keys[1:], 5, 3, 77, 1)
				testenv.Same(t, "entries missing at a release of two", count(t, reply), want)
			}
			_, slots = w.ask(t, 0, 0, 0)
			testenv.Same(t, "slots after the release", slots.Remaining, 2)
			w.gone(t, 4, 0, 1)
			testenv.Same(t, "keys left when no slot is held", w.client.Exists(ctx, w.keys[1]).Val(), 0)
		})
	}
}

// slotWorker sends what a worker sends for a rule with a window and slots.
type slotWorker struct {
	luaPlan
	check, refund, renew Script
	clock                []string // keys after those of the limits
}

func (w *slotWorker) run(s Script, keys []string, args ...any) *redis.Cmd {
	return w.client.Eval(ctx, s.Source, append(slices.Clone(keys), w.clock...), args...)
}

func (w *slotWorker) ask(t *testing.T, nonce int64, costs ...int64) (window, slots Decision) {
	t.Helper()
	w.nonce = nonce
	out, _, err := w.parse(w.run(w.check, w.keys, w.arguments(costs)...))
	testenv.OK(t, err)
	return out[0], out[1]
}

// gone gives back, and returns how many entries were not there.
func (w *slotWorker) gone(t *testing.T, nonce int64, costs ...int64) int64 {
	t.Helper()
	w.nonce = nonce
	return count(t, w.run(w.refund, w.keys, w.refundArguments(costs, 1)...))
}

// missing renews the slots of nonces 4 and 5, and returns how many entries were not there.
func (w *slotWorker) missing(t *testing.T) int64 {
	t.Helper()
	return count(t, w.run(w.renew, w.keys[1:], int64(testTTL), 4, 1, 5, 3))
}

func count(t *testing.T, reply *redis.Cmd) int64 {
	t.Helper()
	n, err := reply.Int64()
	testenv.OK(t, err)
	return n
}
