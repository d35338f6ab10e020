package decide

import (
	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/metric"
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

// AskRedis asks Redis about the remaining checks. It reports whether the request can be concluded;
// otherwise Question.replied says when it can be.
func (s *Stores) AskRedis(q *Question, now Time) (decided bool) {
	q.waiting++ // a stream that ends meanwhile does not conclude the request
	if q.first(isUnasked) != nil {
		s.send(q, now)
	}
	for i := range q.Checks {
		if a := &q.Checks[i].Ask; a.lease != nil {
			s.replenish(a, now) // batch.go
		}
	}
	s.leases.returnStale(now)
	q.waiting--
	return q.waiting == 0
}

// send sends Redis the checks that have no answer yet, in one write. What becomes of them is in
// replies.go.
func (s *Stores) send(q *Question, now Time) {
	cause := s.remote.conn.Begin(now.SteadyMicros)
	if q.keptMicros != 0 {
		s.remote.conn.KeptBack(s.remote.conn.ListeningMicros(now.SteadyMicros) - q.keptMicros)
	}
	for i := range q.Checks {
		c := &q.Checks[i]
		if !isUnasked(c) {
			continue
		}
		if cause != redis.NoCause {
			c.Status = Undecided
			continue
		}
		c.Status = Waiting
		q.waiting++
		q.inPipe++
		c.charged.sent = s.remote.ask(q, i, s.penalties.tell(&c.Ask, now), q.mustDefer())
		s.record.Count(metric.CheckSent, 1)
	}
	if cause == redis.NoCause {
		s.remote.conn.Flush(now.SteadyMicros)
	}
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

func (r *remote) refund(of *Receipt, now Time) { r.conn.Refund(r.charge(of), now.SteadyMicros) }

func (r *remote) charge(of *Receipt) redis.Charge {
	return redis.Charge{
		Script: r.scripts[of.limits.ID], Tag: of.tag, Values: of.values, Costs: of.costs, Sizes: of.sizes,
		Nonce: of.nonce, AtMicros: of.atMicros,
	}
}
