package decide

import (
	"slices"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/lru"
	"github.com/sluiceproxy/sluice/plugin/metric"
	"github.com/sluiceproxy/sluice/plugin/redis"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// This file is what a worker knows of penalties: the rejections that Redis has not counted
// yet. All of it is bounded.

const (
	// maxGroups bounds what is kept of the rejections of one identity: those that are
	// nearer to each other than a share of the penalty's window are told as one.
	maxGroups      = 16
	maxGroupMicros = 1_000_000 / maxGroups

	// minGroups is of how many identities rejections are kept at least: those from
	// memory, and those that were judged when all checks of their request had answers.
	minGroups = 4096
)

// group is some rejections from memory, the first of them at a time.
type group struct{ atMicros, count int64 }

// penalties is a worker's memory of rejections. The table is by rule.Rule.Index; nil where
// no rule has a penalty.
type penalties struct {
	groups  *lru.Table[[]group]
	strikes []algo.Strikes // scratch
}

func newPenalties(cfg *config.Config, rules *rule.Set) (p penalties) {
	for _, r := range rules.Rules {
		if r.Terms.Penalty != nil && p.groups == nil {
			p.groups = lru.New[[]group](max(int(cfg.DenyCacheSize), minGroups))
		}
	}
	return p
}

// mustTell reports whether one more rejection earns the identity a block, by what this
// worker alone has rejected from memory: then Redis is asked at once.
func (s *Stores) mustTell(c *Check, now Time) bool {
	list := s.penalties.kept(c)
	if list == nil {
		return false
	}
	penalty, sum := c.Rule.Terms.Penalty, int64(0)
	for _, g := range *list {
		if now.SteadyMicros-g.atMicros < penalty.WithinMicros {
			sum += g.count
		}
	}
	return sum > 0 && sum >= penalty.After-1
}

// tell is what a check tells Redis of: each rejection once. It is good until the next
// call.
func (s *Stores) tell(c *Check, now Time) []algo.Strikes {
	c.tells = false
	list := s.penalties.kept(c)
	if list == nil {
		return nil
	}
	s.penalties.strikes = s.penalties.strikes[:0]
	for _, g := range *list {
		s.penalties.strikes = append(s.penalties.strikes, algo.Strikes{AgeMicros: now.SteadyMicros - g.atMicros, Count: g.count})
	}
	*list = (*list)[:0]
	c.tells = len(s.penalties.strikes) > 0
	return s.penalties.strikes
}

// kept is what is kept of the rejections of a check's identity, nil if nothing is.
func (p *penalties) kept(c *Check) *[]group {
	if c.Rule.Terms.Penalty == nil || p.groups == nil {
		return nil
	}
	return p.groups.Get(c.Rule.Index, c.Tag)
}

// learnPenalty counts a block that a reply says to begin.
func (s *Stores) learnPenalty(c *Check, r *redis.Reply) {
	earned := r.EarnedMicros > 0
	if r.By == algo.ByPenalty && c.tells { // a block that begins now is as long as blocks are
		earned = slices.Contains(c.Rule.Terms.Penalty.ForMicros, r.LeftMicros)
	}
	if earned {
		s.record.Count(metric.PenaltyEarned, 1)
	}
}

// judge keeps the rejection of a request as a strike, if Redis has not counted it and
// no other rule rejects the request, too. It reports whether one does.
func (s *Stores) judge(q *Question, now Time) (several bool) {
	var only *Check
	for i := range q.Checks {
		c := &q.Checks[i]
		if !enforcedRejection(c) {
			continue
		}
		if only != nil {
			return true
		}
		only = c
	}
	if only != nil && (only.Source == FromMemory || only.Source == FromRedis && q.mustDefer()) {
		s.strike(only, now)
	}
	return false
}

// mustDefer reports whether Redis must not count a rejection at once. Where several
// enforced rules are asked, one may reject as it is full of what other requests have
// charged that another rule rejects, and that is being given back: nobody's fault.
func (q *Question) mustDefer() bool {
	enforced := 0
	for i := range q.Checks {
		if q.Checks[i].Enforced() {
			enforced++
		}
	}
	return enforced > 1
}

// strike keeps a rejection for the penalty, which Redis counts with the identity's
// next call.
func (s *Stores) strike(c *Check, now Time) {
	penalty := c.Rule.Terms.Penalty
	if !c.strikes() {
		return
	}
	list, fresh := s.penalties.groups.Put(c.Rule.Index, c.Tag)
	if fresh {
		*list = (*list)[:0]
	}
	near := min(penalty.WithinMicros/maxGroups, maxGroupMicros)
	if n := len(*list); n > 0 && (n == maxGroups || now.SteadyMicros-(*list)[n-1].atMicros < near) {
		(*list)[n-1].count++
		return
	}
	*list = append(*list, group{now.SteadyMicros, 1})
}

// strikes reports whether it is a rejection that its rule's penalty may count. Where
// another rule rejects, too, it is not remembered either: later it would seem to be the
// only one.
func (c *Check) strikes() bool {
	return c.Rule.Terms.Penalty != nil && c.Status == Rejected && c.By == algo.ByLimits
}
