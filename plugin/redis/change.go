package redis

import (
	"slices"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/must"
	"github.com/sluiceproxy/sluice/plugin/rule"
	"github.com/sluiceproxy/sluice/redisresp"
)

// Charge is the charge of a check, with all that it takes to change it.
type Charge struct {
	Script   *Script
	Tag      []byte      // "<rule>|<identity>"
	Cost     int64       // of each limit, where Costs is empty
	Costs    []int64     // of the limits, in order
	Sizes    []algo.Size // that it was charged at; empty: as configured
	Values   rule.Values // of the limits with "per"
	Nonce    int64       // from Add
	AtMicros int64       // Redis' time of the charge; 0: nothing was charged
	Batch    bool        // whether the units are of a batch
}

// appendChange encodes a refund or settlement. Its head counts the arguments of one charge.
func (c *command) appendChange(dst []byte) []byte {
	s, limits := c.script, len(c.script.suffixes)
	must.Hold(len(c.change) > 0 && len(c.change)%(limits+1) == 0,
		"a change has of each charge a number for each limit, and its time")
	dst = appendHead(dst, &s.commandsOf(c.manner).refund, c.manner, len(c.change)-limits-1)
	dst = s.appendKeys(dst, &c.subject)
	if c.byKey {
		dst = s.appendKey(dst, c.tag, algo.ClockSuffix)
	}
	dst = s.appendLimits(dst, &c.subject, c.change[:limits])
	for _, v := range c.change[limits:] {
		dst = redisresp.AppendBulkInt(dst, v)
	}
	return dst
}

// makeChange makes c an errand that takes back units of a charge: of each limit, in
// order. It reports whether there is anything to do.
func (c *command) makeChange(k kind, charge *Charge, back []int64, nowMicros int64) bool {
	c.makeErrand(k, charge.Script, charge.Tag, nowMicros)
	c.nonce, c.sizes = charge.Nonce, append(c.sizes[:0], charge.Sizes...)
	c.values = append(c.values, charge.Values...)
	for i := range c.sizes {
		if c.sizes[i].Ceiling > 0 { // a change is the same in all classes
			c.sizes[i].Ceiling = algo.MaxCeiling
		}
	}
	c.change = appendCosts(c.change, back, charge.Cost, len(charge.Script.suffixes))
	if charge.Batch {
		c.over.Units = 1
	}
	if charge.AtMicros == 0 || slices.Max(c.change) == 0 && slices.Min(c.change) == 0 {
		return false
	}
	c.slots = charge.Script.appendHeld(c.slots, charge.Nonce, c.change)
	c.change = append(c.change, charge.AtMicros)
	return true
}

// makeErrand makes c an errand about nothing yet, in the memory that it has.
func (c *command) makeErrand(k kind, script *Script, tag []byte, nowMicros int64) {
	*c = command{
		kind: k,
		subject: subject{
			script: script, tag: append(c.tag[:0], tag...), sizes: c.sizes[:0], values: c.values[:0],
		},
		check:  check{costs: c.check.costs[:0], strikes: c.check.strikes[:0]},
		change: c.change[:0], slots: c.slots[:0], sentMicros: nowMicros,
	}
}
