package redis

import (
	"bytes"
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

// clock is Redis' time, as far as it is known.
type clock struct {
	known       bool
	aheadMicros int64 // of the worker's steady clock
}

// outcomeOf reads the reply to a command. A script's decision is an array of integers; the override
// that is in force may be its last element. Anything but an array has no elements, which ParseRuling
// refuses.
//
// Some managed Redis do not let scripts call TIME, whichever user runs them. Amazon ElastiCache
// Serverless answers "ERR This Redis command is not allowed from script"
// (https://github.com/cristipufu/aspnetcore-redis-rate-limiting/issues/154), a
// Redis in which TIME was renamed "Unknown Redis command called from script".
// From the first such error on, scripts are sent that tell the time by a key's
// expiry (algo.Plan.ScriptWithoutTime). If it was another command that is missing,
// those fail in the same way.
func (r *replies) outcomeOf(c *command, reply redisresp.Reply, nowMicros int64) outcome {
	row := &table[c.kind]
	switch {
	case reply.Kind == redisresp.Error:
		calls, text := row.form != noForm, unwrapScriptError(reply.Bytes)
		switch {
		case calls && !c.bySource && string(reply.ErrorPrefix()) == "NOSCRIPT":
			return unknown // https://redis.io/docs/latest/commands/evalsha/
		case calls && !c.byKey && (bytes.Contains(text, []byte("ommand is not allowed from script")) ||
			bytes.Contains(text, []byte("nknown ")) && bytes.Contains(text, []byte("ommand called from"))):
			return timeless
		}
		return refused
	case row.shape == simpleString && reply.Kind != redisresp.SimpleString:
		return nonsense
	case row.shape != integers:
		return accepted
	}

	told, values := false, reply.Integers()
	if values == nil {
		r.values = r.values[:0]
		it := reply.Iter() // not in the for clause: TinyGo would allocate it for each element
		for it.Next() {
			v := it.Reply()
			switch {
			case v.Kind == redisresp.Bulk && !told && len(v.Bytes) <= algo.MaxOverrideBytes:
				told, r.reply.Override = true, v.Bytes
			case v.Kind != redisresp.Integer || told:
				return nonsense
			default:
				r.values = append(r.values, v.Int)
			}
		}
		values = r.values
	}

	plan := c.script.planOf(c.Sizes)
	n := len(plan.Limits())
	r.reply.Decisions = slices.Grow(r.reply.Decisions[:0], n)[:n]
	var err error
	r.reply.Ruling, err = plan.ParseRuling(values, r.reply.Decisions)
	r.reply.OtherOverride = errors.Is(err, algo.ErrOtherOverride)
	if told != r.reply.OtherOverride || err != nil && !told && !errors.Is(err, algo.ErrOtherTime) {
		return nonsense
	}
	r.clock = clock{true, r.reply.AtMicros - nowMicros}
	if err != nil {
		return otherSizes
	}
	return accepted
}
