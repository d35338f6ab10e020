package redis

import (
	"github.com/sluiceproxy/sluice/algo"
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

// ttlMicros is after how long slots have ended by themselves.
func (s *Script) ttlMicros() int64 { return s.plan.Limits()[s.slots].TTLMicros }

// release is a command that gives slots back.
type release []Slots

// appendTo encodes a release. It does not ask for the time.
func (l release) appendTo(dst []byte, of *subject, how manner) []byte {
	script := algo.ReleaseScript()
	dst = appendCall(dst, script, how.bySource, 1, 2*len(l))
	dst = of.script.appendKey(dst, of.tag, of.script.suffixes[of.script.slots])
	return appendSlots(dst, l)
}

// renewal is a command that makes slots live for another ttl.
type renewal []Slots

// appendTo encodes a renewal.
func (l renewal) appendTo(dst []byte, of *subject, how manner) []byte {
	s, script, keys := of.script, algo.RenewScript(), 1
	if how.byKey {
		script, keys = algo.RenewScriptWithoutTime(), 2
	}
	dst = appendCall(dst, script, how.bySource, keys, 1+2*len(l))
	dst = s.appendKey(dst, of.tag, s.suffixes[s.slots])
	if how.byKey {
		dst = s.appendKey(dst, of.tag, algo.ClockSuffix)
	}
	dst = redisresp.AppendBulkInt(dst, s.ttlMicros())
	return appendSlots(dst, l)
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
