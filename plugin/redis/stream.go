package redis

import "github.com/sluiceproxy/sluice/redisresp"

// stream is the state of the stream that a Conn has, or will open.
type stream struct {
	host    Host
	open    bool
	heard   bool   // a reply has come on it
	opened  bool   // there was one before, which was lost
	another bool   // Redis has answered nothing since then
	resting bool   // it was closed because no request needed it
	opening bool   // inside OpenStream
	tries   int    // attempts to open one that may fail before there is a pause
	number  uint64 // counts the streams

	unproven bool   // it is in place of a lost one, and has yet to answer its probe
	greeting []byte // what it is sent first: the set-up and the probe

	dueMicros    int64  // when it is to be replaced, see rotation
	usedMicros   int64  // when something was last sent
	reopenMicros int64  // no new stream before this time
	reopen       pauses // between attempts to open one

	replaced       bool  // one was closed as useless
	replacedMicros int64 // the last time

	ended     ended // why the last one has
	deferring bool  // commands leave together at the end of the callback

	in      []byte // the beginning of a reply that is not complete
	decoder *redisresp.Decoder
}

// ended is why a stream has ended.
type ended struct {
	cause   Cause
	counted bool // the failure behind it has been counted
}

// replyLimits bound a reply: our scripts' replies are flat arrays of a few dozen integers, and error
// texts are short.
var replyLimits = redisresp.Limits{Bytes: maxReplyBytes}

// Bound: bytes of a reply to the plugin. Beyond it, the stream is closed. Protects memory.
const maxReplyBytes = 64 << 10

// restMicros is after how long without a command a stream is closed. Envoy keeps
// a configuration, and this connection with it, for as long as one of its
// requests lives; a WebSocket may live for days after the configuration was
// replaced.
//
// Bound: us without a command. Beyond it, the stream is closed. Protects memory: it keeps an old
// configuration alive.
const restMicros = 60_000_000

// backOff postpones the next attempt to open a stream.
func (s *stream) backOff(nowMicros int64) {
	s.reopenMicros = nowMicros + s.reopen.next()
}
