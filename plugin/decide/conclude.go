package decide

import (
	"github.com/sluiceproxy/sluice/plugin/metric"
	"github.com/sluiceproxy/sluice/plugin/must"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// Conclude decides a question once none of its checks is waiting, and updates the stores: a
// request that is refused consumes nothing. The Worker acts on the verdict in Envoy.
func (s *Stores) Conclude(q *Question, now Time) Verdict {
	must.Hold(!q.concluded && q.waiting == 0, "a request is concluded once, when no check waits")
	s.decideRest(q, now)
	if q.over {
		q.excuse() // verdict.go
	}
	v := q.Verdict() // verdict.go
	if q.asking != rule.NotForQuota && v.Event != Refused {
		if !s.alone() {
			s.fallBack(q, reportsLocally, now)
		}
		v = q.served(v) // quota.go
	}
	q.concluded, q.verdict = true, v
	s.record.Concluded(q, v)
	if v.Event != Refused {
		if q.over {
			s.memory.rememberOver(q, now)
		}
		return v
	}
	q.refused = true // what late replies turn out to have charged is given back, too
	for i := range q.Checks {
		c := &q.Checks[i]
		s.penalties.judge(c, v.Several, q.mustDefer(), now) // strikes count whatever is given back
		s.giveAllBack(c, now)
		s.memory.remember(c, v.Several, now)
	}
	return v
}

// decideRest decides what Redis has left undecided, as far as it can be.
//
//go:inline
func (s *Stores) decideRest(q *Question, now Time) {
	if s.alone() {
		return
	}
	if q.over {
		s.recallOver(q, now)
	}
	if q.first(isUndecided) != nil {
		s.overrides.refit(q, now)
		s.endOverdue(q, now) // overdue.go
	}
	s.fallBack(q, failsLocally, now) // fallback.go
}

// recallOver lets remembered rejections stand for what Redis has left undecided.
func (s *Stores) recallOver(q *Question, now Time) {
	for i := range q.Checks {
		c := &q.Checks[i]
		if !excuses(c.Rule) || !isUndecided(c) {
			continue
		}
		if s.askMemory(c, now); c.Status == Allowed {
			c.Status, c.Source = Undecided, FromNone
		}
	}
}

// Leave gives back all that a request has charged that never reached the upstream: see the
// effect GiveBack.
//
//go:noinline
func (s *Stores) Leave(q *Question, now Time) {
	must.Hold(q.concluded && !q.refused, "who leaves without a verdict, or refused, has nothing to give back here")
	q.refused = true
	for i := range q.Checks {
		s.giveAllBack(&q.Checks[i], now)
	}
	s.record.Count(metric.TurnExpired, 1)
}
