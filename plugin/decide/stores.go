package decide

import (
	"math/rand/v2"

	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/local"
	"github.com/sluiceproxy/sluice/plugin/metric"
	"github.com/sluiceproxy/sluice/plugin/redis"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// Recorder counts what happens. It is called once for each thing that does.
type Recorder interface {
	// Count counts an event n times.
	Count(e metric.Event, n int64)
	// RequestFailed counts a check that Redis did not decide.
	RequestFailed(cause redis.Cause)
	// RoundTrip counts the time in which Redis answered.
	RoundTrip(micros int64)
	// BreakerChanged notes the breaker's new state.
	BreakerChanged(state redis.BreakerState)
	// OverrideIgnored warns that an identity's override is not valid.
	OverrideIgnored(tag []byte)
	// Concluded counts a request that has its verdict, and each of its checks.
	Concluded(q *Question, v Verdict)
}

// Stores is all that can answer a Question, for one configuration in one worker: a field for
// each layer. A layer owns its state, and sees checks and receipts, but no other layer. One
// that is off holds nothing and does nothing. What involves several of them, Stores does, in
// the order of features.go.
type Stores struct {
	record   Recorder
	order    []layer     // in which they are asked when a request comes
	features [][]feature // of limit sets, by rule.LimitSet.ID

	calendars calendars
	overrides overrides
	leases    leases
	memory    memory
	penalties penalties
	slots     inFlight
	embedded  embedded
	remote    remote
	burst     burst
}

// newStores makes the stores of a configuration. store may be nil if only Redis decides. chance
// is only drawn from before newStores returns.
func newStores(cfg *config.Config, rules *rule.Set, store *local.Store, record Recorder, chance rand.Source) *Stores {
	s := &Stores{
		record: record, order: orderOf(cfg, rules), features: featuresOf(cfg, rules),
		calendars: newCalendars(rules), slots: newInFlight(rules, chance),
	}
	s.embedded = embedded{
		store: store, record: record, book: s.slots.book,
		plans: make(plans, len(rules.LimitSets)), entries: newEntries(rules),
	}
	s.leases = newLeases(cfg, rules, s, chance)
	s.overrides = newOverrides(cfg, rules, record, chance)
	s.penalties = newPenalties(cfg, rules, record, chance)
	s.memory = newMemory(cfg, rules, chance)
	for _, set := range rules.LimitSets {
		if cfg.Redis != nil {
			script := redis.NewScript(set.Plan, cfg.Redis.KeyPrefix, set.KeySuffixes)
			s.remote.scripts = append(s.remote.scripts, script)
		}
	}
	s.burst.seed = chance.Uint64()
	return s
}

// Tick passes time to what the stores hold.
func (s *Stores) Tick(now Time) {
	s.leases.book.Expire(now.SteadyMicros)
	s.leases.returnStale(now)
	s.renewSlots(now)
}

// Close gives back all that the leases hold, and what they will be given: the
// configuration ends, and the next one takes units of its own.
func (s *Stores) Close(now Time) { s.leases.book.Close(now.SteadyMicros) }

// alone reports whether there is no Redis to ask.
func (s *Stores) alone() bool { return s.order[len(s.order)-1] == onlyLayer }

// remote is the layer of Redis: it knows the scripts that decide. Where no Redis is configured
// it is never asked: see orderOf.
type remote struct {
	conn    *redis.Conn
	scripts []*redis.Script // by rule.LimitSet.ID
	back    []int64         // scratch, for a settlement
}

func (r *remote) charge(of *Receipt) redis.Charge {
	return redis.Charge{
		Script: r.scripts[of.Limits.ID], Demand: of.Demand, Nonce: of.nonce, AtMicros: of.atMicros,
	}
}

// observer tells the Recorder and the Stores what happens to the connection.
type observer struct {
	Recorder
	stores *Stores
}

// BreakerChanged implements redis.Observer.
func (o observer) BreakerChanged(state redis.BreakerState) {
	o.Recorder.BreakerChanged(state)
	if state == redis.Closed {
		o.stores.slots.book.Hurry() // none was renewed meanwhile
	}
}
