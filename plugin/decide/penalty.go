package decide

import (
	"math/rand/v2"
	"slices"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/deny"
	"github.com/sluiceproxy/sluice/plugin/lru"
	"github.com/sluiceproxy/sluice/plugin/metric"
	"github.com/sluiceproxy/sluice/plugin/redis"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// What a worker knows of penalties: the rejections that Redis has not counted yet. All of it is
// bounded.

// held is the record of an identity of a rule.
type held struct {
	groups []group
	// full: the rule has rejected it together with another one, at fullMicros, and has
	// admitted nothing since.
	full       bool
	fullMicros int64
}

// penalties is the layer that knows them. The table is by rule.Rule.ID; where no rule has a
// penalty it stays empty.
type penalties struct {
	record     Recorder
	identities *lru.Table[rule.ID, held]
	strikes    []algo.Strikes // scratch
	// transitMicros is longer than a charge stands that another rule's rejection gives back.
	transitMicros int64
}

func newPenalties(cfg *config.Config, rules *rule.Set, record Recorder, chance rand.Source) penalties {
	if cfg.Redis == nil || !slices.ContainsFunc(rules.Rules, hasPenalty) {
		return penalties{identities: &lru.Table[rule.ID, held]{}}
	}
	return penalties{
		record:        record,
		identities:    lru.New[rule.ID, held](max(int(cfg.DenyCacheSize), minStrikeIdentities), chance.Uint64()),
		transitMicros: max(cfg.Redis.TimeoutMicros, deny.SharedTTLMicros),
	}
}

func hasPenalty(r *rule.Rule) bool { return r.Terms.Penalty != nil }

// mustTell reports whether one more rejection earns the identity a block, by what this
// worker alone has rejected from memory: then Redis is asked at once.
func (p *penalties) mustTell(a *Ask, now Time) bool {
	list := p.kept(a)
	if list == nil {
		return false
	}
	penalty, sum := a.Rule.Terms.Penalty, int64(0)
	for _, g := range list.groups {
		if now.SteadyMicros-g.atMicros < penalty.WithinMicros {
			sum += g.count
		}
	}
	return sum > 0 && sum >= penalty.After-1
}

// kept is the record of a check's identity, nil if it has none.
func (p *penalties) kept(a *Ask) *held {
	if a.Rule.Terms.Penalty == nil {
		return nil
	}
	return p.identities.Get(a.Rule.ID, a.Tag)
}

// learn counts a block that a reply says to begin.
func (p *penalties) learn(a *Ask, r *redis.Reply, decides bool) {
	if decides && r.Allowed { // the rule has room for the identity
		if h := p.kept(a); h != nil {
			h.full = false
		}
	}
	earned := r.EarnedMicros > 0
	if r.By == algo.ByPenalty && a.tells { // a block that begins now is as long as blocks are
		earned = slices.Contains(a.Rule.Terms.Penalty.ForMicros, r.LeftMicros)
	}
	if earned {
		p.record.Count(metric.PenaltyEarned, 1)
	}
}

// The rejections that a penalty is to count and Redis has not: kept by identity, and told with its
// next check.

const (
	// maxStrikeGroups bounds what is kept of the rejections of one identity: those that are
	// nearer to each other than a share of the penalty's window are told as one.
	//
	// Bound: times of rejections kept of one identity. Beyond it, rejections that are near each
	// other count as of one time. Protects memory.
	maxStrikeGroups = 16
	// Bound: us of the times that count as one. Beyond it, a rejection begins another group.
	// Protects the count of rejections within a window.
	maxGroupMicros = 1_000_000 / maxStrikeGroups

	// minStrikeIdentities is of how many identities rejections are kept at least: those from
	// memory, and those that were judged when all checks of their request had answers.
	//
	// Bound: identities whose rejections are kept, however small the deny cache is. Beyond it, the
	// rejections of the one unused for longest count no more. Protects memory.
	minStrikeIdentities = 4096
)

// group is some rejections from memory, the first of them at a time.
type group struct{ atMicros, count int64 }

// tell returns the rejections that a check reports to Redis: each once. The result is good until
// the next call.
func (p *penalties) tell(a *Ask, now Time) []algo.Strikes {
	a.tells = false
	list := p.kept(a)
	if list == nil {
		return nil
	}
	p.strikes = p.strikes[:0]
	for _, g := range list.groups {
		p.strikes = append(p.strikes, algo.Strikes{AgeMicros: now.SteadyMicros - g.atMicros, Count: g.count})
	}
	list.groups = list.groups[:0]
	a.tells = len(p.strikes) > 0
	return p.strikes
}

// mustDefer reports whether Redis must not count a rejection at once. If several enforced rules
// are asked, one may be full only of charges by requests that another rule rejects, and which
// are on their way back. Such a rejection is not the fault of its client.
func (q *Question) mustDefer() bool { return q.has.enforced > 1 }

// judge keeps the rejection of a request that is refused as a strike, if Redis has not counted it; deferred
// says whether Redis was told not to. Redis counts it with the identity's next call. Where several rules
// reject, one may be full for a moment of charges that another one's rejection is giving back. Then it
// counts if the rule has rejected the identity longer ago than those stand, and this worker has seen it
// admit nothing since: at most once in that time, as other workers may have seen more.
func (p *penalties) judge(c *Check, several, deferred bool, now Time) {
	if !c.Rule.Enforced || c.Source != FromMemory && !(c.Source == FromRedis && deferred) {
		return
	}
	h, fresh := p.identities.Put(c.Rule.ID, c.Tag)
	if fresh {
		*h = held{groups: h.groups[:0]}
	}
	if several {
		if h.full && now.SteadyMicros-h.fullMicros < p.transitMicros {
			return
		}
		wasFull := h.full
		h.full, h.fullMicros = true, now.SteadyMicros
		if !wasFull {
			return
		}
	}
	near := min(c.Rule.Terms.Penalty.WithinMicros/maxStrikeGroups, maxGroupMicros)
	if n := len(h.groups); n > 0 && (n == maxStrikeGroups || now.SteadyMicros-h.groups[n-1].atMicros < near) {
		h.groups[n-1].count++
		return
	}
	h.groups = append(h.groups, group{now.SteadyMicros, 1})
}
