package decide

// This file keeps requests back that come in one go, faster than the worker can hear
// what becomes of them. A client can send thousands in one write: were Redis asked about
// all of them at once, it would answer the last of them too late, and the failure mode
// would decide about requests that nothing is the matter with. And of those of one
// client most are rejected by what becomes of the first, which the worker then remembers.

// maxCrowd bounds the memory of those that are kept back. Who would be one too many is
// Redis' to refuse.
const maxCrowd = 1 << 16

// maxAsked bounds of how many one callback asks Redis: it takes a millisecond.
const maxAsked = 64

// mustWait reports whether a request that Redis has to be asked about is kept back.
func (s *Stores) mustWait(q *Question, now Time) bool {
	n := s.crowd.len()
	return n < maxCrowd && q.first(unanswered) != nil && s.conn.Crowded(n > 0, now.SteadyMicros)
}

// askCrowd asks Redis about those who were kept back, in their order, as far as there is
// room. It returns the first that can be concluded without; nil if there is none.
func (s *Stores) askCrowd(now Time) *Question {
	for range maxAsked {
		if s.crowd.len() == 0 || s.conn.Crowded(false, now.SteadyMicros) {
			return nil
		}
		q := s.crowd.pop()
		if s.recall(q, now) || !s.askRedis(q, now) {
			return q
		}
		s.replenish(q, now)
	}
	return nil
}
