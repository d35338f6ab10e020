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

// ledger is the same by what the documentation says, and nothing else: units that were used, in
// microseconds of the time that restores them.
type ledger struct {
	poolInterval, poolBurst int64
	ownInterval, ownBurst   int64
	poolUsed                int64
	ownUsed                 map[int]int64
	nowMicros               int64
}

func (m *ledger) take(tenant int, nowMicros, cost int64) (allowed, borrowed bool) {
	passed := nowMicros - m.nowMicros
	m.nowMicros, m.poolUsed = nowMicros, max(m.poolUsed-passed, 0)
	for who, used := range m.ownUsed {
		m.ownUsed[who] = max(used-passed, 0)
	}
	fitsPool := m.poolUsed+cost*m.poolInterval <= m.poolBurst*m.poolInterval
	fitsDebt := m.poolUsed+cost*m.poolInterval <= 2*m.poolBurst*m.poolInterval
	fitsOwn := m.ownUsed[tenant]+cost*m.ownInterval <= m.ownBurst*m.ownInterval
	switch {
	case cost == 0:
		return true, true
	case fitsOwn && fitsDebt:
		m.ownUsed[tenant] += cost * m.ownInterval
		borrowed = false
	case fitsPool:
		borrowed = true
	default:
		return false, true
	}
	m.poolUsed += cost * m.poolInterval
	return true, borrowed
}

// TestGuaranteeByDefinition replays random tenants on a guarantee and on a ledger of its own, and
// bounds what all of them get together in any time, whatever is configured.
func TestGuaranteeByDefinition(t *testing.T) {
	t.Parallel()
	r := newRandom(88)
	for i := range 400 {
		pool := Limit{Algorithm: GCRA, Units: []int64{10, 100, 1000}[r.IntN(3)], WindowMicros: 1e6, Burst: r.span(1, 200)}
		guarantee := Limit{
			Algorithm: TokenBucket, Units: []int64{1, 5, 50}[r.IntN(3)], WindowMicros: 1e6, Burst: r.span(1, 100),
		}
		s, now := newTenants(t, pool, guarantee), int64(epoch)
		m := &ledger{ // units take a whole number of microseconds each
			poolInterval: pool.WindowMicros / pool.Units, poolBurst: pool.Capacity(),
			ownInterval: guarantee.WindowMicros / guarantee.Units, ownBurst: guarantee.Capacity(),
			ownUsed: map[int]int64{}, nowMicros: now,
		}
		var bound total
		for range 300 {
			now += r.span(0, 3*pool.WindowMicros/pool.Units)
			tenant, cost := r.IntN(12), r.cost(min(guarantee.Burst, 5))
			allowed, borrowed, out := s.take(tenant, now, cost)
			wantAllowed, wantBorrowed := m.take(tenant, now, cost)
			text := fmt.Sprintf("%d: tenant %d, cost %d of %+v, guaranteed %+v", i, tenant, cost, pool, guarantee)
			testenv.Same(t, text+": allowed", allowed, wantAllowed)
			testenv.Same(t, text+": borrowed", borrowed, wantBorrowed)
			testenv.Same(t, text+": that one of the two is hidden", out[0].Hidden != out[1].Hidden, true)
			if allowed {
				bound.add(t, text, now, cost, m.poolInterval, 2*pool.Burst)
			}
			if t.Failed() {
				t.FailNow()
			}
		}
	}
}

// total is the units admitted, and when.
type total struct{ at, units []int64 }

// add holds that in no time up to now more was admitted than time restores and most units.
func (b *total) add(t *testing.T, text string, nowMicros, units, intervalMicros, most int64) {
	t.Helper()
	b.at, b.units = append(b.at, nowMicros), append(b.units, units)
	sum := int64(0)
	for i := len(b.at) - 1; i >= 0; i-- {
		sum += b.units[i]
		if allowed := (nowMicros-b.at[i])/intervalMicros + most; sum > allowed {
			t.Errorf("%s: %d units within %d us, want %d at most", text, sum, nowMicros-b.at[i], allowed)
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
	var bound total
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
		if allowed && len(bound.at) < 3000 {
			bound.add(t, "fits", now, 1, pool.WindowMicros/pool.Units, pool.Burst+10*guarantee.Burst)
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
