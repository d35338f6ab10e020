package decide

import (
	"slices"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/deny"
	"github.com/sluiceproxy/sluice/plugin/lease"
	"github.com/sluiceproxy/sluice/plugin/local"
	"github.com/sluiceproxy/sluice/plugin/metric"
	"github.com/sluiceproxy/sluice/plugin/redis"
	"github.com/sluiceproxy/sluice/plugin/rule"
	"github.com/sluiceproxy/sluice/plugin/slots"
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
	// OverrideIgnored tells operators that what they have set for an identity is none.
	OverrideIgnored(tag []byte)
	// Concluded counts a request that has its verdict, and each of its checks.
	Concluded(q *Question, v Verdict)
}

// Redis is the connection to Redis, see redis.Conn.
type Redis interface {
	Crowded(others bool, nowMicros int64) bool
	Begin(nowMicros int64) redis.Cause
	Add(w redis.Waiter, index int, charge redis.Charge) (nonce int64)
	Flush(nowMicros int64)
	Refund(charge redis.Charge, nowMicros int64)
	Settle(charge redis.Charge, nowMicros int64)
	Release(charge redis.Charge, nowMicros int64)
	Renew(script *redis.Script, tag []byte, slots []int64, nowMicros int64)
	RedisMicros(nowMicros int64) (micros int64, known bool)
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

	overrides overrides
	penalties penalties

	slots   *slots.Book // nil: no limit has any
	sets    []*rule.LimitSet
	renewed []int64 // scratch

	calendars calendars

	// reconnected notes that another connection to Redis was opened in place of an
	// earlier one, and the leases have not been told.
	reconnected bool

	differences []int64 // scratch, for a settlement

	crowd fifo        // paused questions that Redis is still to be asked, see crowd.go
	ready fifo        // paused questions that can be concluded
	queue queue       // Held questions
	idle  []*Question // to use again
}

// NewStores makes the stores of a configuration. embedded may be nil.
func NewStores(cfg *config.Config, rules *rule.Set, embedded *local.Store, record Recorder) *Stores {
	s := &Stores{mode: cfg.Failure.Mode, record: record, embedded: embedded, calendars: newCalendars(rules)}
	s.slots, s.sets = newSlots(rules), rules.LimitSets
	for range rules.LimitSets {
		s.sized = append(s.sized, &algo.Plan{})
	}
	if cfg.Redis == nil {
		return s
	}
	for _, set := range rules.LimitSets {
		s.scripts = append(s.scripts, redis.NewScript(set.Plan, cfg.Redis.KeyPrefix, set.KeySuffixes))
		if slices.ContainsFunc(set.Limits, isLeased) && s.leases == nil {
			s.leases = lease.NewBook(s)
		}
	}
	s.overrides, s.penalties = newOverrides(rules), newPenalties(cfg, rules)
	if cfg.DenyCacheSize > 0 {
		s.denied = deny.New(int(cfg.DenyCacheSize))
		s.holds = holds(rules)
	}
	return s
}

func isLeased(l config.Limit) bool { return l.Lease != nil }

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
	for i := range q.Checks {
		if c := &q.Checks[i]; c.slot.Held() { // not so, but the Book must not point to what is used again
			s.slots.Drop(&c.slot)
		}
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

// RequestFailed implements redis.Observer.
func (s *Stores) RequestFailed(cause redis.Cause) { s.record.RedisFailed(cause) }

// RoundTrip implements redis.Observer.
func (s *Stores) RoundTrip(micros int64) { s.record.RoundTrip(micros) }

// Refunded implements redis.Observer.
func (s *Stores) Refunded() { s.record.Count(metric.ChargeRefunded, 1) }

// BreakerChanged implements redis.Observer.
func (s *Stores) BreakerChanged(state redis.BreakerState) {
	s.record.BreakerChanged(state)
	if state == redis.Closed && s.slots != nil {
		s.slots.Hurry() // none was renewed meanwhile
	}
}

// Reconnected implements redis.Observer. Who answers now may hold none of the
// charges behind what is remembered, nor behind the leases.
func (s *Stores) Reconnected() {
	s.record.Count(metric.Reconnected, 1)
	s.reconnected = true
	if s.denied != nil {
		s.denied.Clear()
	}
	if s.slots != nil {
		s.slots.Hurry()
	}
}
