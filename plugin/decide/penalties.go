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
func (p *penalties) learn(a *Ask, r *redis.Reply) {
	if a.Rule.Terms.Penalty == nil {
		return
	}
	earned := r.EarnedMicros > 0
	if r.By == algo.ByPenalty && a.tells { // a block that begins now is as long as blocks are
		earned = slices.Contains(a.Rule.Terms.Penalty.ForMicros, r.LeftMicros)
	}
	if earned {
		p.record.Count(metric.PenaltyEarned, 1)
	}
}

// admitted notes that a check's rule has room for its identity.
func (p *penalties) admitted(a *Ask) {
	if h := p.kept(a); h != nil {
		h.full = false
	}
}
