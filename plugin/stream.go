package main

import (
	"errors"
	"slices"
	"strconv"

	"github.com/sluiceproxy/sluice/plugin/config"
)

// stream is a limiter's gRPC stream to the Redis cluster, at whose other end the
// bridge turns messages into plain RESP. It is opened, used and closed under the
// plugin context, whose id the callbacks bring; a token tells its streams apart.
type stream struct {
	host    host
	id      uint32 // of the plugin context
	service []byte // serialised envoy.config.core.v3.GrpcService
	token   uint32
	open    bool
	opening bool     // inside OpenStream: Envoy has not told the token yet
	useless []uint32 // tokens of streams to cancel, see reap
	trial   *trial
}

func newStream(h host, id uint32, cfg *config.Redis) *stream {
	return &stream{host: h, id: id, service: grpcService(cfg.Cluster), trial: newTrial(h, cfg)}
}

// grpcService is a GrpcService message that names a cluster:
// {envoy_grpc: {cluster_name: cluster}}. A bare name works too, unless it happens
// to be a valid message.
func grpcService(cluster string) []byte {
	inner := appendField(nil, cluster)
	return appendField(nil, string(inner))
}

// OpenStream implements redis.Host.
func (s *stream) OpenStream() error {
	s.open, s.opening = true, true
	token, status := s.host.grpcOpen(s.id, s.service)
	s.opening = false
	if status != 0 {
		s.open = false
		return errors.New("proxy_grpc_stream: status " + strconv.Itoa(int(status)))
	}
	s.token = token
	return nil
}

var errStreamEnded = errors.New("proxy_grpc_send: the stream has ended")

// Send implements redis.Host.
func (s *stream) Send(commands []byte) error {
	if s.open && s.host.grpcSend(s.id, s.token, commands) != 0 {
		s.open = false
		return errStreamEnded
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

// mustReap reports whether streams wait to be cancelled.
func (s *stream) mustReap() bool { return len(s.useless) > 0 }

// reap cancels the streams that are useless now. It is called by the timer:
// Envoy 1.36 crashes when a stream is ended while it brings a message. To close
// them would not do, as Envoy keeps a closed stream until the peer has closed its
// side, which a Redis that hangs does not.
func (s *stream) reap() {
	for _, token := range s.useless {
		s.host.grpcCancel(s.id, token)
	}
	s.useless = s.useless[:0]
}

// is reports whether a token is that of the open stream.
func (s *stream) is(token uint32) bool { return s.open && token == s.token }

// ended notes that a stream has ended. It reports whether that was the one in use.
func (s *stream) ended(token uint32) bool {
	if i := slices.Index(s.useless, token); i >= 0 {
		s.useless = slices.Delete(s.useless, i, i+1) // its token must not be used any more
		return false
	}
	if !s.opening && !s.is(token) {
		return false
	}
	s.open = false
	return true
}

// Warn implements redis.Host.
func (s *stream) Warn(line string) { s.host.logLine(logWarn, "sluice: "+line) }

// Tried implements redis.Host.
func (s *stream) Tried(ok bool, line string) { s.trial.ended(ok, "sluice: "+line) }

// Info implements redis.Host.
func (s *stream) Info(line string) { s.host.logLine(logInfo, "sluice: "+line) }
