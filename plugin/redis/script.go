package redis

import (
	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/redisresp"
)

// Script is one list of limits ready to be sent: everything about its commands
// that does not depend on the request is encoded once.
type Script struct {
	policy   *algo.Plan
	prefix   string   // "<key_prefix>:{"
	suffixes []string // "}:<algorithm>:<window>", one for each limit
	evalsha  []byte   // of the check, up to and including the number of keys
	eval     []byte   // likewise, with its source
	refund   []byte   // likewise, of the refund: always with its source
	args     []byte   // the policy's constants, as bulk strings
	nonce    bool
	key      []byte // scratch
}

// NewScript prepares a policy. suffixes are what follows the hash tag in the
// key of each limit, such as ":gcra:1s".
func NewScript(policy *algo.Plan, keyPrefix string, suffixes []string) *Script {
	s := &Script{policy: policy, prefix: keyPrefix + ":{", nonce: policy.NeedsNonce()}
	for _, suffix := range suffixes {
		s.suffixes = append(s.suffixes, "}"+suffix)
	}
	args := policy.Args()
	for _, a := range args {
		s.args = redisresp.AppendBulkString(s.args, a)
	}
	keys := len(suffixes)
	check, refund := policy.Script(), policy.RefundScript()
	s.evalsha = appendHead(nil, "EVALSHA", check.SHA1, keys, 2+len(args))
	s.eval = appendHead(nil, "EVAL", check.Source, keys, 2+len(args))
	s.refund = appendHead(nil, "EVAL", refund.Source, keys, 3+len(args))
	return s
}

// appendHead appends a command up to its number of keys, which as many keys and
// then some arguments follow (https://redis.io/docs/latest/commands/eval/).
func appendHead(dst []byte, name, script string, keys, args int) []byte {
	dst = redisresp.AppendArray(dst, 3+keys+args)
	dst = redisresp.AppendBulkString(dst, name)
	dst = redisresp.AppendBulkString(dst, script)
	return redisresp.AppendBulkInt(dst, int64(keys))
}

// appendCall appends the command of a check or refund entry. A refund is sent with
// its source: after a NOSCRIPT it would come one round trip later, and the
// client's next request could overtake it.
func (s *Script) appendCall(dst []byte, e *entry) []byte {
	switch {
	case e.kind == refundEntry:
		dst = append(dst, s.refund...)
	case e.bySource:
		dst = append(dst, s.eval...)
	default:
		dst = append(dst, s.evalsha...)
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
