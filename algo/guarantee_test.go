package algo

import (
	"fmt"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// tenants is a pool with the guarantee of each tenant, in the way that a rule has them: one plan,
// and of the guarantee a state for each tenant.
type tenants struct {
	plan   *Plan
	pool   State
	states map[int]State
}

// take decides one request, and says who admitted it.
func (s *tenants) take(tenant int, nowMicros, cost int64) (allowed, borrowed bool, out []Decision) {
	states, out := []State{s.pool, s.states[tenant]}, make([]Decision, 2)
	s.plan.Rebase(states, nowMicros)
	allowed = s.plan.Decide(states, nowMicros, []int64{cost, cost}, out)
	borrowed = s.plan.Resolve(out)
	s.pool, s.states[tenant] = states[0], states[1]
	return allowed, borrowed, out
}

func newTenants(t *testing.T, pool, guarantee Limit) *tenants {
	t.Helper()
	pool.Pool, guarantee.Guarantee, guarantee.PerID = true, true, "tenant|"
	return &tenants{plan: mustPlan(t, pool, guarantee), states: map[int]State{}}
}

// TestGuaranteeByDefinition replays random tenants on a guarantee and on a ledger of its own, by what the
// documentation says and nothing else. It bounds what all of them get together in any time, whatever is configured.
func TestGuaranteeByDefinition(t *testing.T) {
	t.Parallel()
	r := newRandom(88)
	for i := range 400 {
		pool := Limit{Algorithm: GCRA, Units: []int64{10, 100, 1000}[r.IntN(3)], WindowMicros: 1e6, Burst: r.span(1, 200)}
		guarantee := Limit{
			Algorithm: TokenBucket, Units: []int64{1, 5, 50}[r.IntN(3)], WindowMicros: 1e6, Burst: r.span(1, 100),
		}
		s, now := newTenants(t, pool, guarantee), int64(epoch)
		twice := pool // the pool may be in debt by its burst
		twice.Burst = 2 * pool.Burst
		bound := newExactBucket(twice, now)
		// The ledger is in microseconds of the time that restores what was used: each unit takes a whole number.
		poolInterval, ownInterval := pool.WindowMicros/pool.Units, guarantee.WindowMicros/guarantee.Units
		poolUsed, ownUsed := int64(0), [12]int64{}
		for range 300 {
			passed := r.span(0, 3*poolInterval)
			tenant, cost := r.IntN(len(ownUsed)), r.cost(min(guarantee.Burst, 5))
			now, poolUsed = now+passed, max(poolUsed-passed, 0)
			for who, used := range ownUsed {
				ownUsed[who] = max(used-passed, 0)
			}
			pooled, own := poolUsed+cost*poolInterval, ownUsed[tenant]+cost*ownInterval // with this request
			fits := pooled <= pool.Burst*poolInterval || cost == 0
			guaranteed := cost > 0 && own <= guarantee.Burst*ownInterval && pooled <= 2*pool.Burst*poolInterval
			if guaranteed {
				ownUsed[tenant] = own
			}
			if guaranteed || fits {
				poolUsed = pooled
			}
			allowed, borrowed, out := s.take(tenant, now, cost)
			text := fmt.Sprintf("%d: tenant %d, cost %d of %+v, guaranteed %+v", i, tenant, cost, pool, guarantee)
			testenv.Same(t, text+": allowed", allowed, guaranteed || fits)
			testenv.Same(t, text+": borrowed", borrowed, !guaranteed)
			testenv.Same(t, text+": that one of the two is hidden", out[0].Hidden != out[1].Hidden, true)
			if allowed {
				testenv.Same(t, text+": us until twice the burst allows it", bound.take(now, cost, 0), 0)
			}
			if t.Failed() {
				t.FailNow()
			}
		}
	}
}

// TestGuaranteeThatFitsIsKept: where all guarantees fit into the pool together, no tenant within its
// guarantee is ever refused, whatever a flooder does, and the bound is the pool's rate, its burst
// and the guarantees' bursts.
func TestGuaranteeThatFitsIsKept(t *testing.T) {
	t.Parallel()
	pool := Limit{Algorithm: GCRA, Units: 1000, WindowMicros: 1e6, Burst: 200}
	guarantee := Limit{Algorithm: GCRA, Units: 50, WindowMicros: 1e6, Burst: 10}
	s, r := newTenants(t, pool, guarantee), newRandom(89)
	now, honest, refused, all := int64(epoch), map[int]int64{}, 0, int64(0)
	together := pool
	together.Burst += 10 * guarantee.Burst
	bound := newExactBucket(together, now)
	for range 60_000 {
		now += r.span(0, 800)
		tenant := 0 // the flooder
		if r.oneIn(2) {
			tenant = 1 + r.IntN(9)
			if now < honest[tenant] {
				continue
			}
			honest[tenant] = now + guarantee.WindowMicros/guarantee.Units
		}
		allowed, _, _ := s.take(tenant, now, 1)
		switch {
		case allowed:
			all++
		case tenant > 0:
			refused++
		}
		if allowed && bound.take(now, 1, 0) > 0 {
			t.Fatalf("at %d more is admitted than the pool restores, beyond all bursts", now)
		}
	}
	testenv.Same(t, "honest requests refused", refused, 0)
	if restored := (now - epoch) * pool.Units / pool.WindowMicros; all < restored*99/100 {
		t.Errorf("%d admitted, the pool has restored %d", all, restored)
	}
}

// TestGuaranteeShows which of the two admitted, and else the pool with the shorter wait.
func TestGuaranteeShows(t *testing.T) {
	t.Parallel()
	s := newTenants(t, Limit{Algorithm: GCRA, Units: 10, WindowMicros: 1e6, Burst: 2},
		Limit{Algorithm: GCRA, Units: 5, WindowMicros: 1e6, Burst: 1})
	now := int64(epoch)
	for i, want := range []struct {
		tenant          int
		cost            int64
		allowed, lent   bool
		remaining, wait int64
	}{
		{tenant: 1, cost: 1, allowed: true, remaining: 0},                        // guaranteed
		{tenant: 1, cost: 1, allowed: true, lent: true, remaining: 0},            // borrowed: the pool is full
		{tenant: 1, cost: 1, lent: true, remaining: 0, wait: 100_000},            // the pool has room sooner
		{tenant: 2, cost: 1, allowed: true, remaining: 0},                        // in debt
		{tenant: 3, cost: 1, allowed: true, remaining: 0},                        // as far as debt goes
		{tenant: 4, cost: 1, lent: true, remaining: 0, wait: 100_000},            // beyond: until it may be in debt
		{tenant: 4, cost: 0, allowed: true, lent: true, remaining: 0},            // nothing is guaranteed for nothing
		{tenant: 1, cost: 3, allowed: false, lent: true, remaining: 0, wait: -1}, // for ever
	} {
		allowed, borrowed, out := s.take(want.tenant, now, want.cost)
		shown := out[1]
		if borrowed {
			shown = out[0]
		}
		text := fmt.Sprintf("%d: %+v", i, want)
		testenv.Same(t, text+": allowed", allowed, want.allowed)
		testenv.Same(t, text+": borrowed", borrowed, want.lent)
		testenv.Same(t, text+": hidden", shown.Hidden, false)
		testenv.Same(t, text+": remaining", shown.Remaining, want.remaining)
		testenv.Same(t, text+": wait", shown.RetryAfterMicros, want.wait)
	}
}

// TestGuaranteeNeedsAPool: what is no pair is refused.
func TestGuaranteeNeedsAPool(t *testing.T) {
	t.Parallel()
	pool := Limit{Algorithm: GCRA, Units: 10, WindowMicros: 1e6, Pool: true}
	own := Limit{Algorithm: GCRA, Units: 5, WindowMicros: 1e6, Guarantee: true, PerID: "a|"}
	both, counter, other := own, pool, own
	both.Pool, counter.Algorithm, other.PerID = true, FixedWindow, "b|"
	for name, limits := range map[string][]Limit{
		"no pool": {own}, "no guarantee": {pool}, "both in one": {both, pool}, "a counter": {counter, own},
		"two guarantees": {pool, own, other},
	} {
		_, err := NewPlan(limits)
		testenv.Same(t, name+": refused", err != nil, true)
	}
}
