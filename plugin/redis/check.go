package redis

import (
	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/rule"
	"github.com/sluiceproxy/sluice/redisresp"
)

// Check is one rule's charge for a request, as Redis is asked for it. Add copies it.
type Check struct {
	Script *Script
	Tag    []byte      // "<rule>|<identity>"
	Cost   int64       // of each limit, where Costs is empty
	Costs  []int64     // of the limits, in order
	Sizes  []algo.Size // that came with the request; empty: as configured
	// MadeFor is the override that the check was made for; empty: none.
	MadeFor []byte
	Values  rule.Values // of the limits with "per"
	// Strikes are rejections of the identity to report, see algo.Penalty.
	Strikes []algo.Strikes
	// Over is the rest of an earlier batch, where the check is of a batch.
	Over algo.Over
	// Deferred: a rejection does not count as a strike yet; the worker judges it first.
	Deferred bool
}

// Reply is Redis' answer to one check. Its lists are good during the call only.
type Reply struct {
	algo.Ruling                 // AtMicros is Redis' time
	Decisions   []algo.Decision // of the limits, where they have decided
	// OtherOverride: the check was made for another override than Override, which is in force
	// and lasts for LeftMicros; empty: there is none. They matter to Remake alone.
	OtherOverride bool
	Override      []byte
}

// check is the part of a command that only checks have.
type check struct {
	costs    []int64 // one for each limit
	madeFor  []byte  // an override
	strikes  []algo.Strikes
	deferred bool
}

// appendCheck encodes a check. Its head counts the arguments of one without an override.
func (c *command) appendCheck(dst []byte) []byte {
	s, k := c.script, &c.check
	more := 0
	if len(k.madeFor) > 0 {
		more = 1
	}
	dst = appendHead(dst, &s.commandsOf(c.manner).check, c.manner, more)
	dst = s.appendKeys(dst, &c.subject)
	for _, suffix := range s.terms {
		dst = s.appendKey(dst, c.tag, suffix)
	}
	if c.byKey {
		dst = s.appendKey(dst, c.tag, algo.ClockSuffix)
	}
	dst = s.appendAll(dst, &c.subject, k.costs)
	if s.penalty != nil {
		dst = append(dst, s.penalty...)
		s.arg = algo.AppendStrikes(s.arg[:0], k.strikes, k.deferred)
		dst = redisresp.AppendBulk(dst, s.arg)
	}
	if more > 0 {
		dst = redisresp.AppendBulk(dst, k.madeFor)
	}
	return dst
}

// appendCosts appends one cost for each limit: costs, or cost where there are none.
func appendCosts(dst, costs []int64, cost int64, limits int) []int64 {
	if len(costs) > 0 {
		return append(dst, costs...)
	}
	for range limits {
		dst = append(dst, cost)
	}
	return dst
}
