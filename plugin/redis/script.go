package redis

import (
	"bytes"
	"sync"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/must"
	"github.com/sluiceproxy/sluice/redisresp"
)

// Script is one plan ready to be sent: everything about its commands that does
// not depend on the request is encoded once. It belongs to one Conn.
type Script struct {
	plan     *algo.Plan
	prefix   string   // of keys
	suffixes []string // ":<algorithm>:<window>", one for each limit
	byTime   commands
	byKey    *commands // for a Redis whose scripts may not call TIME; nil until one is met
	args     [][]byte  // of each limit: what follows its cost, as bulk strings
	packed   []byte    // what stands for all of that in checks, if the plan packs
	terms    []string  // ":override" and the like: keys of the whole rule, of checks only
	penalty  []byte    // its arguments that do not depend on the request, as bulk strings
	slots    int       // the first limit whose slots requests hold; -1: none
	lent     int       // the limit of which workers take batches; -1: none
	per      []string  // of each limit its PerID, "" without; nil if none has one
	sized    algo.Plan // scratch: plan with the sizes of a command
	key      []byte    // scratch
	arg      []byte    // scratch

	// known is, for each form of command, the number of the stream on which it was run by
	// source, which lets Redis keep it; 0: none.
	known [forms]uint64
}

// commands are a check and a refund that tell the time in one way.
type commands struct{ check, refund heads }

// heads are the beginning of a command, up to and including the number of keys
// (https://redis.io/docs/latest/commands/eval/).
type heads struct{ byHash, bySource []byte }

// NewScript prepares a plan. suffixes follow the hash tag in the key
// of each limit, such as ":gcra:1s".
func NewScript(plan *algo.Plan, keyPrefix string, suffixes []string) *Script {
	s := &Script{plan: plan, prefix: keyPrefix, suffixes: suffixes, terms: plan.TermSuffixes(), slots: -1, lent: -1}
	if i, ok := plan.Slots(); ok {
		s.slots = i
	}
	for i := range suffixes {
		if plan.TakesOver(i) {
			s.lent = i
		}
		if id := plan.Limits()[i].PerID; id != "" {
			if s.per == nil {
				s.per = make([]string, len(suffixes))
			}
			s.per[i] = id
		}
		var own []byte
		for _, a := range plan.Args(i) {
			own = redisresp.AppendBulkString(own, a)
		}
		s.args = append(s.args, own)
	}
	if penalty := plan.Terms().Penalty; penalty != nil {
		for _, a := range penalty.Args() {
			s.penalty = redisresp.AppendBulkString(s.penalty, a)
		}
	}
	if plan.Packs() {
		s.packed = redisresp.AppendBulk(nil, plan.AppendNumbers(nil))
	}
	s.byTime = s.newCommands(plan.Script(), plan.RefundScript(), 0)
	return s
}

// newCommands prepares a check and a refund that take so many keys in addition to their own.
func (s *Script) newCommands(check, refund algo.Script, more int) commands {
	keys := len(s.suffixes) + more
	args, changeArgs := s.plan.NumCheckArgs(), s.plan.NumRefundArgs()
	return commands{newHeads(check, keys+len(s.terms), args+s.plan.NumTermArgs()), newHeads(refund, keys, changeArgs+1)}
}

// commandsOf is the commands that tell the time by TIME, or by a key.
func (s *Script) commandsOf(byKey bool) *commands {
	if !byKey {
		return &s.byTime
	}
	if s.byKey == nil {
		c := s.newCommands(s.plan.ScriptWithoutTime(), s.plan.RefundScriptWithoutTime(), 1)
		s.byKey = &c
	}
	return s.byKey
}

// prepared are the heads that have been made, by the script's SHA-1: the scripts of
// most rules are the same, and some 2 KB long.
var prepared struct {
	sync.Mutex
	heads map[string]heads
}

// newHeads prepares a script that takes so many keys and arguments, or finds it
// prepared.
func newHeads(s algo.Script, keys, args int) heads {
	prepared.Lock()
	defer prepared.Unlock()
	h, ok := prepared.heads[s.SHA1]
	if !ok {
		h = heads{appendCall(nil, s, false, keys, args), appendCall(nil, s, true, keys, args)}
		if prepared.heads == nil {
			prepared.heads = map[string]heads{}
		}
		prepared.heads[s.SHA1] = h
	}
	return h
}

// appendHead appends what a command begins with that has more arguments than its head
// says.
func appendHead(dst []byte, h *heads, bySource bool, more int) []byte {
	head := h.byHash
	if bySource {
		head = h.bySource
	}
	if more > 0 {
		end := bytes.IndexByte(head, '\r')
		elements := 0
		for _, digit := range head[1:end] {
			elements = 10*elements + int(digit-'0')
		}
		dst, head = redisresp.AppendArray(dst, elements+more), head[end+2:]
	}
	return append(dst, head...)
}

// holdCosts holds what the arithmetic relies on.
func (s *Script) holdCosts(costs []int64) {
	must.Hold(len(costs) == len(s.args), "there is a cost for each limit")
	if must.On {
		for _, cost := range costs {
			must.Hold(cost >= -2*algo.MaxUnits && cost <= 2*algo.MaxUnits, "costs are within what a state can hold")
		}
	}
}

// appendLimits appends the arguments of each limit.
func (s *Script) appendLimits(dst []byte, c *command, costs []int64) []byte {
	s.holdCosts(costs)
	plan := s.planOf(c.Sizes)
	for i, own := range s.args {
		dst = redisresp.AppendBulkInt(dst, costs[i])
		if s.slots >= 0 && s.plan.TakesNonce(i) {
			dst = redisresp.AppendBulkInt(dst, c.nonce)
		}
		if i == s.lent {
			dst = redisresp.AppendBulkInt(dst, c.over.Units)
			dst = redisresp.AppendBulkInt(dst, c.over.ChargedMicros)
		}
		if plan == s.plan {
			dst = append(dst, own...)
		} else {
			for n := range plan.NumArgs(i) { // the limit's size came with the request
				s.arg = plan.AppendArg(s.arg[:0], i, n)
				dst = redisresp.AppendBulk(dst, s.arg)
			}
		}
	}
	return dst
}

// planOf is the plan at other sizes than configured. It is good until the next call.
func (s *Script) planOf(sizes []algo.Size) *algo.Plan { return s.plan.At(&s.sized, sizes) }

// appendKeys appends the keys of the limits. The key of a limit that counts for each value, and does
// not apply, has no values; nothing is ever written there.
func (s *Script) appendKeys(dst []byte, c *command) []byte {
	if s.per == nil {
		for _, suffix := range s.suffixes {
			dst = s.appendKey(dst, c.Tag, suffix)
		}
		return dst
	}
	var own []byte
	values := c.Values
	for i, suffix := range s.suffixes {
		own = nil
		if s.per[i] != "" {
			own, values = values.Next()
		}
		s.key = append(AppendKey(s.key[:0], s.prefix, c.Tag, suffix), own...)
		dst = redisresp.AppendBulk(dst, s.key)
	}
	return dst
}

func (s *Script) appendKey(dst, tag []byte, suffix string) []byte {
	dst, key := redisresp.AppendBulkOf(dst, len(s.prefix)+len(":{")+len(tag)+len("}")+len(suffix))
	key = key[copy(key, s.prefix):]
	key[0], key[1] = ':', '{'
	key = key[2:]
	key = key[copy(key, tag):]
	key[0] = '}'
	copy(key[1:], suffix)
	return dst
}

// AppendKey appends the key of one limit of one identity: tag is
// "<rule>|<identity>", and suffix what a rule.LimitSet says of the limit. The braces
// make the keys of a tag one hash slot
// (https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tags).
func AppendKey(dst []byte, prefix string, tag []byte, suffix string) []byte {
	dst = append(append(append(dst, prefix...), ":{"...), tag...)
	return append(append(dst, '}'), suffix...)
}
