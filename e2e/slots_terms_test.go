package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"sync"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// slotTerms are rules whose limit on what is in flight stands alone with overrides, as
// a limit of the rule and as one of its tiers, and a rule that has to hold with them.
const slotTerms = `{"redis": {"cluster": "redis", "timeout": "10s"}, "failure": {"mode": %[2]q}, "rules": [
	{"name": "c", "match": {"headers": {"x-rule": "c"}}, "key": [{"header": "x-k"}], "overrides": true,
		"limits": [{"algorithm": "concurrency", "limit": %[1]d}]},
	{"name": "t", "match": {"headers": {"x-rule": "t"}}, "key": [{"header": "x-k"}], "overrides": true, "limits_by": {
		"source": {"header": "x-plan"}, "default": "free", "values": {
			"free": [{"algorithm": "concurrency", "limit": %[1]d}],
			"pro": [{"algorithm": "gcra", "limit": 1000, "window": "1s"}]}}},
	{"name": "daily", "match": {"headers": {"x-rule": "daily"}}, "key": [{"header": "x-k"}],
		"limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 3, "window": "1d"}]}]}`

// TestSlotsAloneBesideOverrides: a limit on what is in flight that stands alone in a rule
// or a tier with overrides admits exactly so many at once, rejects the others as limited,
// leaves no slot behind, and another rule's limit holds meanwhile.
func TestSlotsAloneBesideOverrides(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{2, 3, 5, 20} {
		for _, mode := range []string{"allow", "deny"} {
			t.Run(fmt.Sprintf("%d %s", limit, mode), func(t *testing.T) {
				f := newFlight(0)
				s := startSlots(t, fmt.Sprintf(slotTerms, limit, mode), f, envoytest.Options{})
				for _, rule := range []string{"c", "t"} {
					s.holdsSlots(t, f, rule, limit)
				}
			})
		}
	}
}

// holdsSlots fills a rule's slots, asks for more of them and of the daily limit, and ends
// those that hold.
func (s *setting) holdsSlots(t *testing.T, f *flight, rule string, limit int) {
	t.Helper()
	var group sync.WaitGroup
	rejected, logged := make(chan int, limit+5), len(s.LoggedAll(0))
	for range limit + 5 {
		group.Go(func() {
			r, err := send(ctx, shared, s.URL+"/hold", "x-rule: "+rule, "x-k: "+rule)
			if err != nil {
				t.Error(err)
			}
			rejected <- r.status
		})
	}
	for range 5 { // those that are too many are answered at once
		if status := <-rejected; status != http.StatusTooManyRequests {
			t.Errorf("%s: status %d of one too many", rule, status)
		}
	}
	testenv.Wait(t, patience, func() error {
		if now := f.now.Load(); now != int64(limit) {
			return fmt.Errorf("%s: %d at once at the upstream, want %d", rule, now, limit)
		}
		return nil
	})
	daily := burst(t, 20, 4, []string{s.URL + "/"}, "x-rule: daily", "x-k: "+rule)
	expectTally(t, rule+": the daily limit", daily, tally{200: 3, 429: 17})
	for range limit {
		f.release <- struct{}{}
	}
	group.Wait()
	s.wantOutcomes(t, logged, map[string]int{
		"allowed": limit + 3, "limited:" + rule: 5, "limited:daily": 17,
	})
	s.awaitNoSlot(t, "rl:{"+rule+"|"+rule+"}:concurrency")
}

// wantOutcomes compares the outcomes of the requests that were logged after the first.
func (s *setting) wantOutcomes(t *testing.T, first int, want map[string]int) {
	t.Helper()
	got, sum := map[string]int{}, 0
	for _, n := range want {
		sum += n
	}
	for _, entry := range s.LoggedAll(first + sum)[first:] {
		got[entry.State]++
	}
	if !maps.Equal(got, want) {
		t.Errorf("outcomes %v, want %v", got, want)
	}
}

// awaitNoSlot waits until no slot is held under a key.
func (s *setting) awaitNoSlot(t *testing.T, key string) {
	t.Helper()
	testenv.Wait(t, patience, func() error {
		if n, err := s.client.ZCard(ctx, key).Result(); n != 0 || err != nil {
			return fmt.Errorf("%s: %d slots are held, %v", key, n, err)
		}
		return nil
	})
}
