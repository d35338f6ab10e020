package redis

import (
	"strings"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/rule"
	"github.com/sluiceproxy/sluice/plugin/text"
	"github.com/sluiceproxy/sluice/redisresp"
)

// The commands that give slots back, and renew them. Both name a request's own entry in Redis and
// no other, so they may be sent any number of times: the Conn repeats one that was lost with
// its connection.

// Slots are one request's units of a concurrency limit.
type Slots struct {
	Nonce int64 // of the call that took them
	Count int64
}

// ttlMicros is after how long the slots of a release or renewal have ended by themselves.
func (of *subject) ttlMicros() int64 {
	return of.script.plan.Limits()[of.slotLimit()].TTLMicros
}

// slotLimit is the limit whose slots a release or renewal is about: that of its part.
func (of *subject) slotLimit() int {
	s := of.script
	for i := s.slots; s.per != nil && i < len(s.suffixes); i++ {
		if !s.plan.TakesNonce(i) {
			continue
		}
		if id := s.per[i]; (id == "") == (len(of.values) == 0) && strings.HasPrefix(text.View(of.values), id) {
			return i
		}
	}
	return s.slots
}

// appendSlotKey appends the key of these slots.
func (s *Script) appendSlotKey(dst []byte, of *subject) []byte {
	limit := of.slotLimit()
	values := of.values
	if s.per != nil {
		values = values[min(len(s.per[limit]), len(values)):]
	}
	s.key = append(AppendKey(s.key[:0], s.prefix, of.tag, s.suffixes[limit]), values...)
	return redisresp.AppendBulk(dst, s.key)
}

// makeSlotErrand makes c an errand about the slots of a part of an identity.
func (c *command) makeSlotErrand(k kind, script *Script, part []byte, nowMicros int64) {
	if script.per == nil {
		c.makeErrand(k, script, part, nowMicros)
		return
	}
	tag, id := rule.CutPart(part)
	c.makeErrand(k, script, tag, nowMicros)
	c.values = append(c.values, id...)
}

// appendHeld appends the slots that costs of the limits take.
func (s *Script) appendHeld(dst []Slots, nonce int64, costs []int64) []Slots {
	for i := s.slots; i >= 0 && i < len(s.suffixes); i++ {
		if s.plan.TakesNonce(i) && costs[i] > 0 {
			dst = append(dst, Slots{nonce, costs[i]})
		}
	}
	return dst
}

// appendRelease encodes a release. It does not ask for the time.
func (c *command) appendRelease(dst []byte) []byte {
	dst = appendCall(dst, algo.ReleaseScript(), c.bySource, 1, 2*len(c.slots))
	dst = c.script.appendSlotKey(dst, &c.subject)
	return appendSlots(dst, c.slots)
}

// appendRenewal encodes a renewal, which makes slots live for another ttl.
func (c *command) appendRenewal(dst []byte) []byte {
	s, script, keys := c.script, algo.RenewScript(), 1
	if c.byKey {
		script, keys = algo.RenewScriptWithoutTime(), 2
	}
	dst = appendCall(dst, script, c.bySource, keys, 1+2*len(c.slots))
	dst = s.appendSlotKey(dst, &c.subject)
	if c.byKey {
		dst = s.appendKey(dst, c.tag, algo.ClockSuffix)
	}
	dst = redisresp.AppendBulkInt(dst, c.ttlMicros())
	return appendSlots(dst, c.slots)
}

// appendCall begins a call of a script with so many keys and arguments.
func appendCall(dst []byte, script algo.Script, bySource bool, keys, args int) []byte {
	dst = redisresp.AppendArray(dst, 3+keys+args)
	if bySource {
		dst = redisresp.AppendBulkString(dst, "EVAL")
		dst = redisresp.AppendBulkString(dst, script.Source)
	} else {
		dst = redisresp.AppendBulkString(dst, "EVALSHA")
		dst = redisresp.AppendBulkString(dst, script.SHA1)
	}
	return redisresp.AppendBulkInt(dst, int64(keys))
}

func appendSlots(dst []byte, slots []Slots) []byte {
	for _, s := range slots {
		dst = redisresp.AppendBulkInt(dst, s.Nonce)
		dst = redisresp.AppendBulkInt(dst, s.Count)
	}
	return dst
}
