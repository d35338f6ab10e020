package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// The fleet of TestGuaranteesHoldAfterRedis: nine honest tenants and a flooder, whose guarantees fit.
const (
	fleetRate, fleetBurst = 500, 150
	shareRate, shareBurst = 45, 15
	honestTenants         = 9
	tenantClients         = 4
	honestPause           = 100 * time.Millisecond // of each client: 40 requests/s of a tenant at most
	floodClients          = 12
	floodPause            = 4 * time.Millisecond
)

var fleetRules = fmt.Sprintf(`{%s"rules": [{"name": "fleet", "key": [], "limits": [
	{"name": "pool", "algorithm": "gcra", "limit": %d, "window": "1s", "burst": %d},
	{"name": "tenant", "algorithm": "gcra", "limit": %d, "window": "1s", "burst": %d,
		"per": [{"header": "x-tenant"}], "guarantee": true}]}]}`, patient, fleetRate, fleetBurst, shareRate, shareBurst)

// fleetAnswer is a request, and when it was decided, at some time in between.
type fleetAnswer struct {
	sent, received time.Duration // since the beginning
	status         int
}

// fleet collects what the clients of a run see.
type fleet struct {
	t     *testing.T
	urls  []string
	began time.Time
	left  atomic.Int64 // honest requests still to be sent

	mu     sync.Mutex
	honest []fleetAnswer
	flood  []fleetAnswer
}

// one sends a request, and notes what became of it.
func (f *fleet) one(client *http.Client, n int, tenant string, all *[]fleetAnswer) {
	sent := time.Since(f.began)
	r, err := send(context.Background(), client, f.urls[n%len(f.urls)], "x-tenant: "+tenant)
	if err != nil {
		f.t.Error(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	*all = append(*all, fleetAnswer{sent, time.Since(f.began), r.status})
}

// run has the tenants send so many honest requests, and the flooder as many as it can meanwhile.
func (f *fleet) run(honest int64) {
	f.left.Store(honest)
	running, stop := context.WithCancel(context.Background())
	var tenants, flood sync.WaitGroup
	f.began = time.Now()
	for n := range honestTenants * tenantClients {
		tenants.Go(func() {
			f.send(running, n, honestPause, fmt.Sprint("tenant-", n%honestTenants), &f.honest, true)
		})
	}
	for n := range floodClients {
		flood.Go(func() { f.send(running, n, floodPause, "flooder", &f.flood, false) })
	}
	tenants.Wait()
	stop()
	flood.Wait()
}

func (f *fleet) send(
	running context.Context, n int, pause time.Duration, tenant string, all *[]fleetAnswer, counted bool,
) {
	client := newClient()
	defer client.CloseIdleConnections()
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for running.Err() == nil && (!counted || f.left.Add(-1) >= 0) {
		f.one(client, n, tenant, all)
		n++
		<-tick.C
	}
}

// admitted returns the admitted requests of all tenants, in the order of their answers.
func (f *fleet) admitted() (all []fleetAnswer) {
	for _, a := range slices.Concat(f.honest, f.flood) {
		if a.status == http.StatusOK {
			all = append(all, a)
		}
	}
	slices.SortFunc(all, func(a, b fleetAnswer) int { return int(a.received - b.received) })
	return all
}

// checkBound holds that in no time more was admitted than the pool restores, and most.
func (f *fleet) checkBound(most int) {
	all := f.admitted()
	for from := time.Duration(0); from < all[len(all)-1].received; from += 250 * time.Millisecond {
		count := 0
		for i := range all {
			if all[i].sent < from {
				continue
			}
			count++
			took := all[i].received - from
			if bound := int(took.Seconds()*fleetRate) + 1 + most; count > bound {
				f.t.Fatalf("%d admitted in the %v from %v on, want %d at most", count, took, from, bound)
			}
		}
	}
}

// absence is when Redis was away: from before it was killed until both Envoys asked it again.
type absence struct{ from, to time.Duration }

func (o absence) meets(a fleetAnswer) bool { return a.received >= o.from && a.sent <= o.to }

// checkHonest holds that no honest request was refused, and that none failed while Redis was there.
func (f *fleet) checkHonest(away absence) {
	wrong, failed := tally{}, 0
	for _, a := range f.honest {
		switch {
		case a.status == http.StatusOK:
		case a.status == http.StatusServiceUnavailable && away.meets(a):
			failed++
		default:
			wrong[a.status]++
		}
	}
	testenv.Same(f.t, "honest requests refused or failed", fmt.Sprint(wrong), fmt.Sprint(tally{}))
	f.t.Logf("%d honest requests, %d of them while Redis was away", len(f.honest), failed)
}

// TestGuaranteesHoldAfterRedis: nine tenants within their guarantees, and a flooder, on two Envoys of two
// workers, while Redis is killed and comes back empty: no honest request is refused, and all together
// are never more than the bound. While Redis is away the failure mode denies. All that it has forgotten
// may be admitted once more.
func TestGuaranteesHoldAfterRedis(t *testing.T) {
	server := redistest.Start(t)
	opts := envoytest.Options{Redis: []string{server.Addr}, Quiet: true}
	f := &fleet{t: t, urls: []string{start(t, fleetRules, opts).URL, start(t, fleetRules, opts).URL}}
	away := absence{}
	var operator sync.WaitGroup
	operator.Go(func() {
		time.Sleep(time.Second) // of a run of some seconds
		away.from = time.Since(f.began)
		server.Restart()
		client := newClient()
		defer client.CloseIdleConnections()
		for range 3 * len(f.urls) * 10 { // until every worker asks again
			testenv.Wait(t, patience, func() error { return f.back(client) })
		}
		away.to = time.Since(f.began)
	})
	f.run(3000)
	operator.Wait()
	f.checkHonest(away)
	f.checkBound(2 * (fleetBurst + (honestTenants+1)*shareBurst))
}

// back reports whether both Envoys decide again.
func (f *fleet) back(client *http.Client) error {
	for _, url := range f.urls {
		r, err := send(context.Background(), client, url, "x-tenant: operator")
		if err != nil {
			return err
		}
		if r.status == http.StatusServiceUnavailable {
			return fmt.Errorf("status %d", r.status)
		}
	}
	return nil
}
