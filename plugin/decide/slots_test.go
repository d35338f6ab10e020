package decide

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/plugin/redis"
)

const withSlots = `{"redis": {"cluster": "redis"}, "failure": {"mode": "%s"}, "rules": [
	{"name": "tenant", "key": [{"constant": "t"}], "limits": [{"algorithm": "sliding_window_log", "limit": 200, "window": "1s"}]},
	{"name": "flight", "key": [{"header": "x-user"}], "cost": {"header": "x-cost", "default": 1, "max": 2},
		"limits": [{"algorithm": "fixed_window", "limit": 1000, "window": "1s"}, {"algorithm": "concurrency", "limit": 7, "ttl": "1h"}]},
	{"name": "trial", "mode": "shadow", "key": [{"header": "x-user"}], "limits": [{"algorithm": "concurrency", "limit": 3, "ttl": "1h"}]},
	{"name": "line", "match": {"headers": {"x-line": {"present": true}}},
		"limits": [{"algorithm": "leaky_bucket", "limit": 40, "window": "1s", "burst": 6, "overflow": "queue"}]}
]}`

// heldIn is how many slots the twins of Redis hold of a tag, and under which nonces.
func (w *world) heldIn(script *redis.Script, tag string) (sum int64, nonces []int64) {
	plan := w.plans[script]
	i, _ := plan.Slots()
	for e := range slices.Chunk(w.state(redis.Charge{Script: script, Tag: []byte(tag)})[i], 3) {
		if e[2] > w.now.UnixMicros {
			sum, nonces = sum+e[1], append(nonces, e[0])
		}
	}
	return sum, nonces
}

// checkSlots holds that no identity holds more than its limit, and that Redis knows of
// every slot that a request holds of it.
func (w *world) checkSlots() {
	w.t.Helper()
	for i, set := range w.rules.LimitSets {
		if !set.HasSlots() {
			continue
		}
		j, _ := set.Plan.Slots()
		for user := range 6 {
			tag := fmt.Sprint(set.Rule.Name, "|", user)
			sum, nonces := w.heldIn(w.stores.scripts[i], tag)
			if sum > set.Limits[j].Units {
				w.t.Fatalf("%s holds %d of %d", tag, sum, set.Limits[j].Units)
			}
			for q := range w.requests {
				for k := range q.Checks {
					c := &q.Checks[k]
					if c.slot.Held() && c.Limits == set && string(c.Tag) == tag && c.Source == FromRedis && !slices.Contains(nonces, c.slot.Nonce) {
						w.t.Fatalf("%s: Redis does not know of slot %d", tag, c.slot.Nonce)
					}
				}
			}
		}
	}
}

// TestSlotsInterleaved: whatever happens to requests, nobody holds more than his limit,
// and when all is over nobody holds anything.
func TestSlotsInterleaved(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"allow", "deny", "local"} {
		for round := range uint64(3) {
			t.Run(fmt.Sprint(mode, "/", round), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, round, strings.Replace(withSlots, "%s", mode, 1))
				for n := range 6_000 {
					if w.step(); n%10 == 0 {
						w.checkSlots()
					}
				}
				w.drain()
				for i, set := range w.rules.LimitSets {
					if n := w.stores.InFlight(i); n != 0 {
						t.Errorf("%d requests hold slots of %s", n, set.Rule.Name)
					}
					for user := range 6 {
						tag := fmt.Sprint(set.Rule.Name, "|", user)
						if !set.HasSlots() {
							continue
						}
						if sum, nonces := w.heldIn(w.stores.scripts[i], tag); sum != 0 {
							t.Errorf("%s holds %d: %d", tag, sum, nonces)
						}
						if sum := w.stores.slots.Held(i, []byte(tag), true); sum != 0 {
							t.Errorf("%s holds %d in the embedded store", tag, sum)
						}
					}
				}
			})
		}
	}
}
