package redis

import (
	"github.com/sluiceproxy/sluice/plugin/must"
	"github.com/sluiceproxy/sluice/redisresp"
)

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
	openError    error  // of the last attempt

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

// connect opens a stream, unless the last attempt failed moments ago. reopened says that
// it is in place of one that was lost.
func (s *stream) connect(nowMicros int64) (reopened, ok bool) {
	if nowMicros < s.reopenMicros {
		return false, false
	}
	must.Hold(!s.open, "a stream is opened in place of one that has ended")
	s.decoder.Reset()
	s.open, s.heard, s.opening = true, false, true // before the call, in which Closed may come
	s.openError = s.host.OpenStream()
	s.opening = false
	if s.openError != nil && s.open {
		s.open = false
		s.backOff(nowMicros)
	}
	if !s.open {
		return false, false
	}
	reopened = s.opened
	s.opened, s.resting, s.another = true, false, s.another || reopened
	s.number++
	return reopened, true
}

// rest closes a stream that nothing has needed for a while, and on which no command waits.
// The next request opens another, which is not told as one in place of a lost one.
func (s *stream) rest(nowMicros int64) {
	if s.open && nowMicros-s.usedMicros >= restMicros {
		s.open, s.opened, s.resting = false, false, true
		s.in = s.in[:0]
		s.host.CloseStream()
	}
}

// backOff postpones the next attempt to open a stream.
func (s *stream) backOff(nowMicros int64) {
	s.reopenMicros = nowMicros + s.reopen.next()
}

// setUp queues AUTH and SELECT; they leave with the first command
// (https://redis.io/docs/latest/commands/auth/).
func (p *pipeline) setUp(o *Options, nowMicros int64) {
	if o.Password != "" {
		n := 2
		if o.Username != "" {
			n = 3
		}
		p.out = redisresp.AppendArray(p.out, n)
		p.out = redisresp.AppendBulkString(p.out, "AUTH")
		if o.Username != "" {
			p.out = redisresp.AppendBulkString(p.out, o.Username)
		}
		p.out = redisresp.AppendBulkString(p.out, o.Password)
		p.addEncoded(loggingIn, nowMicros)
	}
	if o.Database != 0 {
		p.out = redisresp.AppendArray(p.out, 2)
		p.out = redisresp.AppendBulkString(p.out, "SELECT")
		p.out = redisresp.AppendBulkInt(p.out, o.Database)
		p.addEncoded(selecting, nowMicros)
	}
}
