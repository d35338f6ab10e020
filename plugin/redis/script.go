package redis

import (
	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/redisresp"
)

// Script is one list of limits ready to be sent: everything about its commands
// that does not depend on the request is encoded once.
type Script struct {
	policy   *algo.Policy
	prefix   string   // "<key_prefix>:{"
	suffixes []string // "}:<algorithm>:<window>", one for each limit
	check    command
	refund   command
	args     []byte // the policy's constants, as bulk strings
	nonce    bool
	key      []byte // scratch
}

// command is one of a policy's two scripts, called by hash and by source.
type command struct {
	evalsha []byte // up to and including the number of keys
	eval    []byte
}

// NewScript prepares a policy. suffixes are what follows the hash tag in the
// key of each limit, such as ":gcra:1s".
func NewScript(policy *algo.Policy, keyPrefix string, suffixes []string) *Script {
	s := &Script{policy: policy, prefix: keyPrefix + ":{", nonce: policy.NeedsNonce()}
	for _, suffix := range suffixes {
		s.suffixes = append(s.suffixes, "}"+suffix)
	}
	args := policy.Args()
	for _, a := range args {
		s.args = redisresp.AppendBulkString(s.args, a)
	}
	keys := len(suffixes)
	s.check = newCommand(policy.Script(), keys, keys+2+len(args))
	s.refund = newCommand(policy.RefundScript(), keys, keys+3+len(args))
	return s
}

// newCommand encodes the head of EVALSHA and of EVAL with a number of keys and
// a number of values (keys and arguments) that follow
// (https://redis.io/docs/latest/commands/evalsha/).
func newCommand(script algo.Script, keys, values int) command {
	head := func(name, which string) []byte {
		b := redisresp.AppendArray(nil, 3+values)
		b = redisresp.AppendBulkString(b, name)
		b = redisresp.AppendBulkString(b, which)
		return redisresp.AppendBulkInt(b, int64(keys))
	}
	return command{evalsha: head("EVALSHA", script.SHA1), eval: head("EVAL", script.Source)}
}

// appendCall appends the command of a check or refund entry.
func (s *Script) appendCall(dst []byte, e *entry) []byte {
	c := &s.check
	if e.kind == refundEntry {
		c = &s.refund
	}
	if e.bySource {
		dst = append(dst, c.eval...)
	} else {
		dst = append(dst, c.evalsha...)
	}
	for _, suffix := range s.suffixes {
		s.key = append(append(append(s.key[:0], s.prefix...), e.tag...), suffix...)
		dst = redisresp.AppendBulk(dst, s.key)
	}
	dst = redisresp.AppendBulkInt(dst, e.cost)
	if s.nonce {
		dst = redisresp.AppendBulkInt(dst, e.nonce)
	} else {
		dst = redisresp.AppendBulkString(dst, "")
	}
	if e.kind == refundEntry {
		dst = redisresp.AppendBulkInt(dst, e.chargedAtMicros)
	}
	return append(dst, s.args...)
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
	return redisresp.AppendBulkString(dst, keyPrefix+":{"+string(tag)+"}:probe")
}
