package redis

import (
	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/redisresp"
)

// Script is one plan ready to be sent: everything about its commands that does
// not depend on the request is encoded once. It belongs to one Conn.
type Script struct {
	plan     *algo.Plan
	prefix   string   // of keys
	suffixes []string // ":<algorithm>:<window>", one for each limit
	check    heads
	refund   heads
	args     [][]byte // of each limit: what follows its cost, as bulk strings
	key      []byte   // scratch

	refundKnownTo uint64 // number of the stream on which refund was run by source; 0: none
}

// heads are the beginning of a command, up to and including the number of keys
// (https://redis.io/docs/latest/commands/eval/).
type heads struct{ byHash, bySource []byte }

// NewScript prepares a plan. suffixes are what follows the hash tag in the key
// of each limit, such as ":gcra:1s".
func NewScript(plan *algo.Plan, keyPrefix string, suffixes []string) *Script {
	s := &Script{plan: plan, prefix: keyPrefix, suffixes: suffixes}
	args := 0
	for i := range suffixes {
		var own []byte
		for _, a := range plan.Args(i) {
			own = redisresp.AppendBulkString(own, a)
		}
		s.args = append(s.args, own)
		args += 1 + plan.NumArgs(i)
	}
	s.check = newHeads(plan.Script(), len(suffixes), args)
	s.refund = newHeads(plan.RefundScript(), len(suffixes), args+1)
	return s
}

// newHeads prepares a script that takes so many keys and arguments.
func newHeads(s algo.Script, keys, args int) heads {
	return heads{appendHead("EVALSHA", s.SHA1, keys, args), appendHead("EVAL", s.Source, keys, args)}
}

func appendHead(name, script string, keys, args int) []byte {
	dst := redisresp.AppendArray(nil, 3+keys+args)
	dst = redisresp.AppendBulkString(dst, name)
	dst = redisresp.AppendBulkString(dst, script)
	return redisresp.AppendBulkInt(dst, int64(keys))
}

// appendCall appends the command of a check, refund or settlement.
func (s *Script) appendCall(dst []byte, e *entry) []byte {
	h := &s.check
	if e.kind != checkEntry {
		h = &s.refund
	}
	if e.bySource {
		dst = append(dst, h.bySource...)
	} else {
		dst = append(dst, h.byHash...)
	}
	for _, suffix := range s.suffixes {
		s.key = AppendKey(s.key[:0], s.prefix, e.charge.Tag, suffix)
		dst = redisresp.AppendBulk(dst, s.key)
	}
	for _, own := range s.args {
		dst = redisresp.AppendBulkInt(dst, e.charge.Cost)
		dst = append(dst, own...)
	}
	if e.kind != checkEntry {
		dst = redisresp.AppendBulkInt(dst, e.charge.AtMicros)
	}
	return dst
}

// probeSource writes a key that vanishes at once: what a check needs, a probe
// must be able to do, or it would find a read-only or full Redis healthy.
const probeSource = "return redis.call('SET', KEYS[1], '', 'PX', 1)"

// appendProbe appends the breaker's probe of a tag's hash slot.
func appendProbe(dst []byte, keyPrefix string, tag []byte) []byte {
	dst = redisresp.AppendArray(dst, 4)
	dst = redisresp.AppendBulkString(dst, "EVAL")
	dst = redisresp.AppendBulkString(dst, probeSource)
	dst = redisresp.AppendBulkInt(dst, 1)
	return redisresp.AppendBulkString(dst, string(AppendKey(nil, keyPrefix, tag, ":probe")))
}
