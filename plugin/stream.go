package main

import (
	"errors"
	"slices"
	"strconv"

	"github.com/sluiceproxy/sluice/plugin/redis"
)

// stream is a limiter's gRPC stream to the Redis cluster, at whose other end the
// bridge turns messages into plain RESP. It is opened, used and closed under the
// plugin context, whose id the callbacks bring; a token tells its streams apart.
type stream struct {
	limiter *limiter
	service []byte // serialised envoy.config.core.v3.GrpcService
	token   uint32
	open    bool
	opening bool // inside OpenStream: Envoy has not told the token yet
	used    bool // a request has needed it
	breaker redis.BreakerState
	ended   bool     // and the connection has not been told yet, see hangUp
	useless []uint32 // tokens of streams to cancel, see reap
}

func newStream(l *limiter, cluster string) *stream {
	return &stream{limiter: l, service: grpcService(cluster)}
}

// grpcService is a GrpcService message that names a cluster:
// {envoy_grpc: {cluster_name: cluster}}. A bare name works too, unless it happens
// to be a valid message.
func grpcService(cluster string) []byte {
	inner := appendField(nil, cluster)
	return appendField(nil, string(inner))
}

// appendField appends field 1 of a protocol buffer message, of wire type LEN
// (https://protobuf.dev/programming-guides/encoding/).
func appendField(dst []byte, value string) []byte {
	dst = append(dst, 1<<3|2)
	n := len(value)
	for ; n >= 0x80; n >>= 7 {
		dst = append(dst, byte(n)|0x80)
	}
	dst = append(dst, byte(n))
	return append(dst, value...)
}

// OpenStream implements redis.Host.
func (s *stream) OpenStream() error {
	enter(s.limiter.id)
	s.open, s.opening, s.used = true, true, true
	token, status := grpcOpen(s.service)
	s.opening = false
	if status != 0 {
		s.open = false
		return errors.New("proxy_grpc_stream: status " + strconv.Itoa(int(status)))
	}
	s.token = token
	return nil
}

// Send implements redis.Host. A stream that does not take the commands has ended,
// which the connection hears of at the next tick.
func (s *stream) Send(commands []byte) error {
	enter(s.limiter.id)
	if s.open && grpcSend(s.token, commands) != 0 {
		s.end()
	}
	return nil
}

// CloseStream implements redis.Host.
func (s *stream) CloseStream() {
	if s.open {
		s.open = false
		s.useless = append(s.useless, s.token)
	}
}

// reap cancels the streams that are of no use any more. It is called by the timer:
// Envoy 1.36 crashes when a stream is ended while it brings a message. To close
// them would not do, as Envoy keeps a closed stream until the peer has closed its
// side, which a Redis that hangs does not.
func (s *stream) reap() {
	for _, token := range s.useless {
		enter(s.limiter.id)
		grpcCancel(token)
	}
	s.useless = s.useless[:0]
}

// Warn implements redis.Host.
func (s *stream) Warn(line string) { logLine(logWarn, "sluice: "+line) }

// Info implements redis.Host.
func (s *stream) Info(line string) { logLine(logInfo, "sluice: "+line) }

// received routes bytes to the connection they belong to.
func received(contextID, token uint32, b []byte) {
	l := limiters[contextID]
	if l == nil || l.stream == nil || !l.stream.open || token != l.stream.token {
		return
	}
	now := steadyMicros()
	l.room = maxConclusions
	l.conn.Received(b, now)
	l.wake(now)
}

// closed notes that a stream has ended, perhaps while it was being opened.
func closed(contextID, token uint32) {
	l := limiters[contextID]
	if l == nil || l.stream == nil {
		return
	}
	s := l.stream
	if i := slices.Index(s.useless, token); i >= 0 {
		s.useless = slices.Delete(s.useless, i, i+1) // its token must not be used any more
		return
	}
	if !s.open || !s.opening && token != s.token {
		return
	}
	s.end()
	l.wake(steadyMicros())
}

func (s *stream) end() { s.open, s.ended = false, true }

// hangUp tells the connection that its stream has ended. It is called by the
// timer: while a request's callback runs, the requests that waited for the stream
// must not be touched. One that is resumed before Envoy has learnt that it is
// paused hangs for ever, and so does the running one when another is answered.
func (s *stream) hangUp(nowMicros int64) {
	if s.ended {
		s.ended = false
		s.limiter.conn.Closed(nowMicros)
	}
}

// RequestFailed implements redis.Observer.
func (s *stream) RequestFailed(cause redis.Cause) { s.limiter.metrics.failed(cause) }

// RoundTrip implements redis.Observer.
func (s *stream) RoundTrip(micros int64) { s.limiter.metrics.answered(micros) }

// Reconnected implements redis.Observer. Who answers now may know of no
// rejections, nor of units that were charged.
func (s *stream) Reconnected() {
	s.limiter.metrics.count(reconnected, 1)
	if s.limiter.denied != nil {
		s.limiter.denied.Clear()
	}
	if s.limiter.leases != nil {
		s.limiter.leases.Clear()
	}
}

// Refunded implements redis.Observer.
func (s *stream) Refunded() { s.limiter.metrics.count(chargeRefunded, 1) }

// BreakerChanged implements redis.Observer.
func (s *stream) BreakerChanged(state redis.BreakerState) {
	s.limiter.metrics.broke(s.breaker, state)
	s.breaker = state
}
