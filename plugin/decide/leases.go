package decide

import (
	"math/rand/v2"
	"slices"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/lease"
	"github.com/sluiceproxy/sluice/plugin/redis"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// Leases: units of hot identities that Redis has given this worker.

// leases is the layer that spends them. It is asked before the memory of rejections: units in
// hand were charged already.
type leases struct {
	book *lease.Book
	// stale notes that another connection to Redis was opened in place of an earlier one, and
	// that the leases were not given back yet.
	stale bool
}

func newLeases(cfg *config.Config, rules *rule.Set, returner lease.Returner, chance rand.Source) leases {
	if cfg.Redis == nil || !slices.ContainsFunc(rules.LimitSets, isLeased) {
		return leases{book: &lease.Book{}}
	}
	return leases{book: lease.NewBook(returner, chance.Uint64())}
}

func isLeased(set *rule.LimitSet) bool {
	return slices.ContainsFunc(set.Limits, func(l config.Limit) bool { return l.Lease != nil })
}

// spend decides a check with a unit that this worker holds, if it holds one. The charge is
// that of the batch that the unit is of.
func (l *leases) spend(a *Ask, out []algo.Decision, now Time) (charge lease.Charge, ok bool) {
	if len(a.Limits.Limits) == 0 {
		return charge, false
	}
	limit := &a.Limits.Limits[0]
	if limit.Lease == nil || a.Costs[0] == 0 {
		return charge, false
	}
	a.lease = l.book.Of(a.Limits.ID, a.Tag, limit, now.SteadyMicros)
	d, charge, ok := l.book.Spend(a.lease, now.SteadyMicros)
	if ok {
		out[0] = d
	}
	return charge, ok
}

// heard tells the lease of a check what Redis has said of its limit.
func (l *leases) heard(a *Ask, r *redis.Reply, nowMicros int64) {
	if a.lease != nil {
		a.lease.Heard(&r.Decisions[0], nowMicros)
	}
}

// unspend takes the unit of a receipt back.
func (l *leases) unspend(r *Receipt, now Time) {
	l.book.Unspend(r.lease, lease.Charge{Nonce: r.nonce, StoreMicros: r.atMicros}, now.SteadyMicros)
}

// returnStale gives the units of all leases back once after a reconnect: data that was lost
// gives no credit for them, and data that was not takes them again.
func (l *leases) returnStale(now Time) {
	if l.stale {
		l.book.ReturnAll(now.SteadyMicros)
		l.stale = false
	}
}
