package main

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/redis"
	"github.com/sluiceproxy/sluice/plugin/text"
)

// stream is a limiter's gRPC stream to the Redis cluster, at whose other end the
// bridge turns messages into plain RESP. It is opened, used and closed under the
// plugin context, whose id the callbacks bring; a token tells its streams apart.
type stream struct {
	host    host
	id      uint32 // of the plugin context
	cluster string
	service []byte   // serialised envoy.config.core.v3.GrpcService
	one     end      // that redis.Host is about
	beside  end      // the other one, while streams rotate
	useless []uint32 // tokens of streams to cancel, see reap
	metrics *metrics
}

// end is this worker's end of one gRPC stream.
type end struct {
	token   uint32
	open    bool
	opening bool   // inside OpenStream: Envoy has not told the token yet
	status  uint32 // gRPC's, that it was closed with
}

// is reports whether a token is that of the open stream, or may be that of the one that is
// being opened.
func (e *end) is(token uint32) bool { return e.open && token == e.token }

func newStream(h host, id uint32, cfg *config.Redis, m *metrics) *stream {
	s := &stream{host: h, id: id, cluster: cfg.Cluster, service: grpcService(cfg.Cluster), metrics: m}
	// Envoy's compare-and-swap covers changes of a record, but not its creation.
	if _, _, ok := s.loadVitals(); !ok {
		s.storeVitals(vitals{evictedKeys: redis.Unknown}, 0)
	}
	return s
}

// grpcService is a GrpcService message that names a cluster and the :authority of the stream:
// {envoy_grpc: {cluster_name: cluster, authority: host}}. Without an authority Envoy takes the
// cluster's name for it, and an HTTP/2 peer resets a stream with an :authority that is no host:
// Istio's names have "|", as in "outbound|9000||relay.redis.svc.cluster.local", and Envoy Gateway's
// have "/". https://datatracker.ietf.org/doc/html/rfc3986#section-3.2.2
func grpcService(cluster string) []byte {
	authority := []byte(cluster[strings.LastIndexByte(cluster, '|')+1:])
	for i, c := range authority {
		switch {
		case text.IsAlpha(c), text.IsDigit(c), c == '.', c == '-', c == '_':
		default:
			authority[i] = '-'
		}
	}
	inner := appendField(nil, 1, cluster)
	inner = appendField(inner, 2, string(authority))
	return appendField(nil, 1, string(inner))
}

// OpenStream implements redis.Host.
func (s *stream) OpenStream() error {
	s.one = end{open: true, opening: true}
	token, status := s.host.grpcOpen(s.id, s.service)
	s.one.opening = false
	if status != 0 {
		s.one.open = false
		if status == internalFailure {
			return errors.New("Envoy has no cluster " + strconv.Quote(s.cluster) + ", or the cluster has no healthy endpoint")
		}
		return errors.New("proxy_grpc_stream: status " + strconv.Itoa(int(status)))
	}
	s.one.token = token
	return nil
}

// internalFailure is the status of a call whose stream ends at once. Envoy returns it both for an
// unknown cluster and for one without a usable endpoint.
const internalFailure = 10

var errStreamEnded = errors.New("proxy_grpc_send: the stream has ended")

// Send implements redis.Host.
func (s *stream) Send(commands []byte) error {
	if s.one.open && s.host.grpcSend(s.id, s.one.token, commands) != 0 {
		s.one.open = false
		return errStreamEnded
	}
	return nil
}

// CloseStream implements redis.Host.
func (s *stream) CloseStream() {
	if s.one.open {
		s.one.open = false
		s.useless = append(s.useless, s.one.token)
	}
}

// SwapStreams implements redis.Host.
func (s *stream) SwapStreams() { s.one, s.beside = s.beside, s.one }

// CloseStatus implements redis.Host.
func (s *stream) CloseStatus() uint32 { return s.one.status }

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

// streaming is the limiter that a stream of a configuration belongs to; nil if there is none.
func (v *vm) streaming(contextID uint32) *limiter {
	v.host.running(contextID)
	if p := v.plugins[contextID]; p != nil && p.limiter != nil && p.limiter.stream != nil {
		return p.limiter
	}
	return nil
}

// received takes bytes from Redis. Most of them let paused requests go on: decide/worker.go.
func (l *limiter) received(token uint32, b []byte) {
	switch {
	case l.stream.one.is(token):
		l.worker.Received(b, l.now())
	case l.stream.beside.is(token):
		l.worker.ReceivedBeside(b, l.now())
	}
}

// closed notes that a stream has ended, perhaps within a request's callback.
func (l *limiter) closed(token, status uint32) {
	s := l.stream
	if i := slices.Index(s.useless, token); i >= 0 {
		s.useless = slices.Delete(s.useless, i, i+1) // its token must not be used any more
		return
	}
	switch {
	case s.one.is(token):
	case s.beside.is(token):
		s.beside.open, s.beside.status = false, status
		l.worker.ClosedBeside(l.now())
		return
	case !s.one.opening: // not in use any more
		return
	}
	s.one.open, s.one.status = false, status
	l.worker.Closed(l.now())
}

// Info and Warn implement redis.Host, too.
func (s *stream) Info(line string) { s.host.logLine(logInfo, "sluice: "+line) }
func (s *stream) Warn(line string) { s.host.logLine(logWarn, "sluice: "+line) }

// Tried implements redis.Host.
func (s *stream) Tried(ok bool, line string) {
	if ok {
		s.Info(line)
	} else {
		s.Warn(line)
	}
}

// appendField appends a field of a protocol buffer message, of wire type LEN and with a number up
// to 15 (https://protobuf.dev/programming-guides/encoding/).
func appendField(dst []byte, number byte, value string) []byte {
	dst = append(dst, number<<3|2)
	n := len(value)
	for ; n >= 0x80; n >>= 7 {
		dst = append(dst, byte(n)|0x80)
	}
	dst = append(dst, byte(n))
	return append(dst, value...)
}
