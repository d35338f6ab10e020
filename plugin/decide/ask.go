package decide

import "github.com/sluiceproxy/sluice/plugin/config"

// This file is what is done about a request's checks, step by step. Each step is in the
// file that is named behind it.

// Ask asks the stores about a request. It reports whether the question can be
// concluded; otherwise it waits for Redis, and Next brings it when it can be.
func (s *Stores) Ask(q *Question, now Time) (decided bool) {
	s.size(q, now)        // sizes.go
	if q.rejectByZero() { // zero.go
		return true
	}
	if s.conn == nil {
		s.askEmbedded(q, unanswered, FromEmbedded, now) // embedded.go
		return true
	}
	s.spend(q, now)       // leases.go
	if s.recall(q, now) { // memory.go
		return true
	}
	if s.mustWait(q, now) { // crowd.go
		s.crowd.push(q)
		return false
	}
	s.askRedis(q, now)  // redis.go
	s.replenish(q, now) // leases.go
	s.returnUnits(now)
	return q.waiting == 0
}

// Conclude finds the verdict on a question of which no check waits any more, and
// does what follows from it in the stores: a request that is refused consumes nothing.
// What is to be done with the request in Envoy is the caller's.
func (s *Stores) Conclude(q *Question, now Time) Verdict {
	if s.mode == config.FailLocal {
		s.askEmbedded(q, enforcedUndecided, FromFallback, now) // embedded.go
	}
	v := q.Verdict(s.mode) // verdict.go
	q.concluded, q.verdict = true, v
	s.record.Concluded(q, v)
	if v.Event == Refused {
		several := s.judge(q, now)  // penalties.go
		s.giveAllBack(q, now)       // receipt.go
		s.remember(q, several, now) // memory.go: after what it was given back is forgotten
	}
	return v
}
