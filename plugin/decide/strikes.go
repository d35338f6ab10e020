package decide

import "github.com/sluiceproxy/sluice/algo"

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
func (q *Question) mustDefer() bool { return q.enforced > 1 }

// judge keeps the rejection of a request that is refused as a strike, if Redis has not counted
// it. Where several rules reject, one may be full for a moment of charges that another one's
// rejection is giving back, so that it has to be surelyFull. deferred says whether Redis was
// told not to count.
func (p *penalties) judge(c *Check, several, deferred bool, now Time) {
	uncounted := c.Source == FromMemory || c.Source == FromRedis && deferred
	if uncounted && enforcedRejection(c) && c.strikes() && (!several || p.surelyFull(&c.Ask, now)) {
		p.strike(&c.Ask, now)
	}
}

// surelyFull reports whether a check's rule rejects its identity for what it has let
// through, not for charges that are on their way back: it has rejected it longer ago than
// those stand, and this worker has seen it admit nothing since. It is true at most once
// in that time, as other workers may have seen more.
func (p *penalties) surelyFull(a *Ask, now Time) bool {
	h := p.keep(a)
	if h.full && now.SteadyMicros-h.fullMicros < p.transitMicros {
		return false
	}
	sure := h.full
	h.full, h.fullMicros = true, now.SteadyMicros
	return sure
}

// keep returns the record of a check's identity, an empty one if it is new.
func (p *penalties) keep(a *Ask) *held {
	h, fresh := p.identities.Put(a.Rule.ID, a.Tag)
	if fresh {
		*h = held{groups: h.groups[:0]}
	}
	return h
}

// strike keeps a rejection for the penalty, which Redis counts with the identity's
// next call.
func (p *penalties) strike(a *Ask, now Time) {
	h := p.keep(a)
	near := min(a.Rule.Terms.Penalty.WithinMicros/maxStrikeGroups, maxGroupMicros)
	if n := len(h.groups); n > 0 && (n == maxStrikeGroups || now.SteadyMicros-h.groups[n-1].atMicros < near) {
		h.groups[n-1].count++
		return
	}
	h.groups = append(h.groups, group{now.SteadyMicros, 1})
}

// strikes reports whether the check is a rejection that its rule's penalty may count.
func (c *Check) strikes() bool {
	return c.Rule.Terms.Penalty != nil && c.Status == Rejected && c.By == algo.ByLimits
}
