package decide

import (
	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/deny"
	"github.com/sluiceproxy/sluice/plugin/lease"
	"github.com/sluiceproxy/sluice/plugin/local"
	"github.com/sluiceproxy/sluice/plugin/metric"
	"github.com/sluiceproxy/sluice/plugin/redis"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// Recorder counts what happens. It is called once for each thing that does.
type Recorder interface {
	// Count counts an event n times.
	Count(e metric.Event, n int64)
	// RedisFailed counts a check that Redis did not decide.
	RedisFailed(cause redis.Cause)
	// RoundTrip counts the time in which Redis answered.
	RoundTrip(micros int64)
	// BreakerChanged notes the breaker's new state.
	BreakerChanged(state redis.BreakerState)
	// Concluded counts a request that has its verdict, and each of its checks.
	Concluded(q *Question, v Verdict)
}

// Redis is the connection to Redis, see redis.Conn.
type Redis interface {
	Begin(nowMicros int64) redis.Cause
	Add(w redis.Waiter, index int, charge redis.Charge) (nonce int64)
	Flush(nowMicros int64)
	Refund(charge redis.Charge, nowMicros int64)
}

// Stores is all that can answer a Question, for one configuration in one worker.
// Behind it are the leases, the deny cache, Redis and the embedded store.
type Stores struct {
	mode     config.FailureMode
	record   Recorder
	embedded *local.Store // nil: only Redis decides

	conn    Redis           // nil: only the embedded store decides
	scripts []*redis.Script // by rule.LimitSet.Index
	sized   []*algo.Plan    // likewise: scratch, for sizes that come with requests
	denied  *deny.Cache     // nil: off
	holds   []int64         // by rule.LimitSet.Index: how long a rejection may be remembered, us
	leases  *lease.Book     // nil: no limit is leased

	// reconnected notes that another connection to Redis was opened in place of an
	// earlier one, and the leases have not been told.
	reconnected bool

	ready fifo        // paused questions that can be concluded
	queue queue       // Held questions
	idle  []*Question // to use again
}

// NewStores makes the stores of a configuration. embedded may be nil.
func NewStores(cfg *config.Config, rules *rule.Set, embedded *local.Store, record Recorder) *Stores {
	s := &Stores{mode: cfg.Failure.Mode, record: record, embedded: embedded}
	for range rules.LimitSets {
		s.sized = append(s.sized, &algo.Plan{})
	}
	if cfg.Redis == nil {
		return s
	}
	for _, set := range rules.LimitSets {
		s.scripts = append(s.scripts, redis.NewScript(set.Plan, cfg.Redis.KeyPrefix, set.KeySuffixes))
		if set.Limits[0].Lease != nil && s.leases == nil {
			s.leases = lease.NewBook(s)
		}
	}
	if cfg.DenyCacheSize > 0 {
		s.denied = deny.New(int(cfg.DenyCacheSize))
		s.holds = holds(rules)
	}
	return s
}

// Connect makes conn the connection to Redis. The Stores is its Observer.
func (s *Stores) Connect(conn Redis) { s.conn = conn }

// maxIdle bounds how many ended questions are kept for their memory.
const maxIdle = 256

// Question begins a question about a request.
func (s *Stores) Question(contextID uint32) *Question {
	n := len(s.idle)
	if n == 0 {
		return &Question{ContextID: contextID, stores: s}
	}
	q := s.idle[n-1]
	s.idle = s.idle[:n-1]
	q.ContextID = contextID
	return q
}

// Release keeps a question for another request, once this one has ended and the
// last of its replies has come.
func (s *Stores) Release(q *Question) {
	if q.state != Ended || q.inPipe > 0 {
		return
	}
	q.reset()
	if len(s.idle) < maxIdle {
		s.idle = append(s.idle, q)
	}
}

// Drop takes a question back that was never asked.
func (s *Stores) Drop(q *Question) {
	q.state = Ended
	s.Release(q)
}

// Ask asks the stores about a request. It reports whether the question can be
// concluded; otherwise it waits for Redis, and Next brings it when it can be.
func (s *Stores) Ask(q *Question, now Time) (decided bool) {
	if q.rejectByZero() {
		return true
	}
	if s.conn == nil {
		for i := range q.Checks {
			if c := &q.Checks[i]; unanswered(c) {
				s.askEmbedded(c, FromEmbedded, now)
			}
		}
		return true
	}
	s.spend(q, now)
	if s.recall(q, now) {
		return true
	}
	s.askRedis(q, now)
	s.replenish(q, now)
	s.returnUnits(now)
	return q.waiting == 0
}

// askEmbedded lets the embedded store decide a check. A store that cannot leaves
// the check Undecided.
func (s *Stores) askEmbedded(c *Check, source Source, now Time) {
	c.Status = Undecided
	plan := s.planOf(c.Limits, c.Sizes)
	at, allowed, err := s.embedded.TakeEach(plan, c.Tag, now.UnixMicros, c.Costs, c.Decisions)
	if err != nil {
		return
	}
	c.Source, c.AtMicros, c.Status = source, at, Rejected
	if allowed {
		c.Status = Allowed
		c.receipt = receiptOf(c)
	}
}

// planOf is the plan of limits, with the sizes that came with the request, if any
// did. It is good until the next call.
func (s *Stores) planOf(limits *rule.LimitSet, sizes []algo.Size) *algo.Plan {
	if sizes == nil {
		return limits.Plan
	}
	if sized, ok := limits.Plan.Sized(s.sized[limits.Index], sizes); ok {
		return sized
	}
	return limits.Plan // rule never makes such sizes
}

// Sized is a check's limits with the sizes that came with the request, nil if none
// did. It is good until other sizes of these limits are asked about.
func (s *Stores) Sized(c *Check) []algo.Limit {
	if c.Sizes == nil {
		return nil
	}
	return s.planOf(c.Limits, c.Sizes).Limits()
}

// askRedis sends the checks that have no answer yet, in one write.
func (s *Stores) askRedis(q *Question, now Time) {
	if q.first(unanswered) == nil {
		return
	}
	cause := s.conn.Begin(now.SteadyMicros)
	for i := range q.Checks {
		c := &q.Checks[i]
		if !unanswered(c) {
			continue
		}
		if cause != redis.NoCause {
			c.Status = Undecided
			continue
		}
		c.Status = Waiting
		q.waiting++
		q.inPipe++
		c.nonce = s.conn.Add(q, i, redis.Charge{
			Script: s.scripts[c.Limits.Index], Tag: c.Tag, Costs: c.Costs, Sizes: c.Sizes,
		})
		s.record.Count(metric.CheckSent, 1)
	}
	if cause == redis.NoCause {
		s.conn.Flush(now.SteadyMicros)
	}
}

func unanswered(c *Check) bool { return c.Status == Unasked }

// Conclude finds the verdict on a question of which no check waits any more, and
// does what follows from it in the stores. What is to be done with the request in
// Envoy is the caller's.
func (s *Stores) Conclude(q *Question, now Time) Verdict {
	if s.mode == config.FailLocal {
		for i := range q.Checks {
			if c := &q.Checks[i]; enforcedUndecided(c) {
				s.askEmbedded(c, FromFallback, now)
			}
		}
	}
	v := q.Verdict(s.mode)
	q.concluded, q.verdict = true, v
	s.record.Concluded(q, v)
	if v.Event == Refused {
		s.refuse(q, now)
	}
	return v
}

// refuse makes a request that is refused consume nothing.
func (s *Stores) refuse(q *Question, now Time) {
	for i := range q.Checks {
		c := &q.Checks[i]
		if c.Status == Allowed && c.receipt.source != FromNobody {
			for j := range c.Decisions {
				c.Decisions[j] = c.Decisions[j].Uncharged(c.Costs[j])
			}
		}
	}
	s.giveAllBack(q, now) // before remember, since it forgets what is remembered
	for i := range q.Checks {
		s.remember(&q.Checks[i], now)
	}
}
