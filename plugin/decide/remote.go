package decide

import (
	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/redis"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// Redis is the connection to Redis, see redis.Conn.
type Redis interface {
	Crowded(most, nowMicros int64) bool
	Asked() (sent, answered uint64)
	ListeningMicros(nowMicros int64) int64
	Overloaded(nowMicros int64)
	Begin(nowMicros int64) redis.Cause
	KeptBack(micros int64)
	Add(w redis.Waiter, index int, check redis.Check) (nonce int64)
	Flush(nowMicros int64)
	Refund(charge redis.Charge, nowMicros int64)
	Settle(charge redis.Charge, back []int64, nowMicros int64)
	Release(script *redis.Script, tag []byte, slots redis.Slots, nowMicros int64)
	Renew(script *redis.Script, tag []byte, slots []redis.Slots, nowMicros int64)
	RedisMicros(nowMicros int64) (micros int64, known bool)
}

// remote is the layer of Redis: it knows the scripts that decide. Where no Redis is configured
// it is never asked: see orderOf.
type remote struct {
	conn    Redis
	scripts []*redis.Script // by rule.LimitSet.ID
	back    []int64         // scratch, for a settlement
}

func newRemote(cfg *config.Config, rules *rule.Set) (r remote) {
	if cfg.Redis == nil {
		return r
	}
	for _, set := range rules.LimitSets {
		r.scripts = append(r.scripts, redis.NewScript(set.Plan, cfg.Redis.KeyPrefix, set.KeySuffixes))
	}
	return r
}

// ask sends a check, between Begin and Flush of the connection. strikes are the rejections
// that Redis is told of, and deferred says whether it must not count its own.
func (r *remote) ask(q *Question, index int, strikes []algo.Strikes, deferred bool) sent {
	c := &q.Checks[index]
	nonce := r.conn.Add(q, index, redis.Check{
		Script: r.scripts[c.Limits.ID], Tag: c.Tag, Values: c.Values, Costs: c.Costs, Sizes: c.Sizes,
		MadeFor: c.madeFor(), Strikes: strikes, Deferred: deferred,
	})
	return sent{nonce, c.Limits, c.Values, c.Costs, c.borrowing, c.Sizes}
}

func (r *remote) charge(of *Receipt) redis.Charge {
	return redis.Charge{
		Script: r.scripts[of.limits.ID], Tag: of.tag, Values: of.values, Costs: of.costs, Sizes: of.sizes,
		Nonce: of.nonce, AtMicros: of.atMicros,
	}
}

func (r *remote) refund(of *Receipt, now Time) { r.conn.Refund(r.charge(of), now.SteadyMicros) }

// settle gives back so much of each limit, or below 0 charges so much more. Settlements are in
// no hurry: they leave together.
func (r *remote) settle(of *Receipt, back []int64, now Time) {
	r.conn.Settle(r.charge(of), back, now.SteadyMicros)
}

// release gives slots of a part of an identity back.
func (r *remote) release(set rule.LimitSetID, part []byte, freed redis.Slots, now Time) {
	r.conn.Release(r.scripts[set], part, freed, now.SteadyMicros)
}

func (r *remote) renew(set rule.LimitSetID, part []byte, slots []redis.Slots, now Time) {
	r.conn.Renew(r.scripts[set], part, slots, now.SteadyMicros)
}

// flush sends the renewals that wait.
func (r *remote) flush(now Time) {
	if len(r.scripts) > 0 {
		r.conn.Flush(now.SteadyMicros)
	}
}

// micros is the time of the store that decides: Redis' as last heard, else the wall clock's.
func (r *remote) micros(now Time) int64 {
	if len(r.scripts) > 0 {
		if micros, known := r.conn.RedisMicros(now.SteadyMicros); known {
			return micros
		}
	}
	return now.UnixMicros
}
