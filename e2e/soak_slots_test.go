//go:build soak

package e2e

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/envoytest"
)

// soakKillEvery is how far apart Envoys are killed.
const soakKillEvery = 20 * time.Second

// TestSlotsSoak has one of two Envoys killed every 20 seconds, and a new one take its
// place, while 200 clients ask for 20 slots: never more than 20 requests are at the
// upstream, and all 20 slots are in use again within the ttl.
func TestSlotsSoak(t *testing.T) {
	g := new(gauge)
	upstream := envoytest.NewUpstream(t, g).Addr
	rule := fmt.Sprintf(slotRule, 20)
	a := start(t, rule, envoytest.Options{Upstream: upstream, Quiet: true})
	launch := func() *setting {
		return start(t, rule, envoytest.Options{Redis: []string{a.redis.Addr}, Upstream: upstream, Quiet: true})
	}
	var victim atomic.Pointer[setting]
	victim.Store(launch())
	var (
		group    sync.WaitGroup
		stop     atomic.Bool
		answered [600]atomic.Int64
	)
	for n := range 200 {
		group.Go(func() {
			client := newClient()
			for !stop.Load() {
				url := a.URL
				if n%2 == 1 {
					url = victim.Load().URL
				}
				r, err := send(ctx, client, url, "x-pause: 40ms")
				if err != nil && n%2 == 0 {
					t.Error(err) // the first Envoy is never killed
				}
				answered[r.status].Add(1)
				if r.status != http.StatusOK {
					time.Sleep(10 * time.Millisecond)
				}
			}
		})
	}
	kills := 0
	for began := time.Now(); time.Since(began) < soakTime(t); kills++ {
		next := launch()
		time.Sleep(soakKillEvery)
		dead := victim.Swap(next)
		dead.Kill()
		time.Sleep(slotTTL)
		for began := time.Now(); g.now.Load() < 20; time.Sleep(time.Millisecond) {
			if time.Since(began) > time.Second {
				t.Errorf("%d requests are at the upstream a second after the kill's ttl, want 20", g.now.Load())
				break
			}
		}
	}
	stop.Store(true)
	group.Wait()
	if most := g.most.Load(); most > 20 {
		t.Errorf("%d requests were at the upstream at once, want 20 at most", most)
	}
	t.Logf("%d kills; %d requests admitted, %d refused, %d without an answer; at most %d at the upstream at once",
		kills, answered[200].Load(), answered[429].Load(), answered[0].Load(), g.most.Load())
	a.awaitHeld(t, slotKey, 0)
}
