package redis

import (
	"errors"
	"slices"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/redisresp"
)

// replies reads the decisions of checks.
type replies struct {
	reply  Reply // the last one
	values []int64
	clock  clock
}

// outcomeOf returns the outcome of a command, by its reply.
func (r *replies) outcomeOf(c *command, reply redisresp.Reply, nowMicros int64) outcome {
	f := &fates[c.kind]
	if reply.Kind == redisresp.Error {
		return outcomeOfError(c, f.form, reply)
	}
	switch f.shape {
	case integers:
		return r.outcomeOfRuling(c, reply, nowMicros)
	case simpleString:
		if reply.Kind != redisresp.SimpleString {
			return nonsense
		}
	}
	return accepted
}

// outcomeOfError separates refusals from commands to send again: Redis may just not know a
// script (https://redis.io/docs/latest/commands/evalsha/), or not let it call TIME.
func outcomeOfError(c *command, f form, reply redisresp.Reply) outcome {
	switch {
	case f == noForm:
	case !c.bySource && string(reply.ErrorPrefix()) == "NOSCRIPT":
		return unknown
	case !c.byKey && refusesCommand(reply.Bytes):
		return timeless
	}
	return refused
}

// outcomeOfRuling reads a script's decision, an array of integers. Anything but an array
// has no elements, which ParseRuling refuses.
func (r *replies) outcomeOfRuling(c *command, reply redisresp.Reply, nowMicros int64) outcome {
	r.values = r.values[:0]
	it := reply.Iter() // not in the for clause: TinyGo would allocate it for each element
	for it.Next() {
		v := it.Reply()
		if v.Kind != redisresp.Integer {
			return nonsense
		}
		r.values = append(r.values, v.Int)
	}
	plan := c.script.planOf(c.sizes)
	n := len(plan.Limits())
	r.reply.Decisions = slices.Grow(r.reply.Decisions[:0], n)[:n]
	var err error
	r.reply.Ruling, err = plan.ParseRuling(r.values, r.reply.Decisions)
	switch {
	case err == nil:
		r.clock.hear(r.reply.AtMicros, nowMicros)
		return accepted
	case errors.Is(err, algo.ErrOtherTime) || errors.Is(err, algo.ErrOtherFactor):
		r.clock.hear(r.reply.AtMicros, nowMicros)
		return otherSizes
	}
	return nonsense
}
