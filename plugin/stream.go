package main

import (
	"encoding/binary"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/sluiceproxy/sluice/plugin/metric"
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

// grpcService is a GrpcService message that names a cluster and the :authority of the stream:
// {envoy_grpc: {cluster_name: cluster, authority: host}}. Without an authority Envoy takes the
// cluster's name for it, and an HTTP/2 peer resets a stream with an :authority that is no host:
// Istio's names have "|", as in "outbound|9000||relay.redis.svc.cluster.local", and Envoy Gateway's
// have "/". https://datatracker.ietf.org/doc/html/rfc3986#section-3.2.2
func grpcService(cluster string) []byte {
	authority := []byte(cluster[strings.LastIndexByte(cluster, '|')+1:])
	for i, c := range authority {
		if !text.IsAlpha(c) && !text.IsDigit(c) && strings.IndexByte(".-_", c) < 0 {
			authority[i] = '-'
		}
	}
	inner := appendField(appendField(nil, 1, cluster), 2, string(authority))
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

// vitals is what the workers know together of a Redis' health. They keep it in shared data, so that
// one of them asks at a time, each eviction counts once, and each warning is logged once. Times are
// those of Envoy's steady clock, which all its workers have, in microseconds.
type vitals struct {
	askMicros         int64 // the next worker may ask from then on
	evictedKeys       int64 // as last heard; redis.Unknown: never
	heardMicros       int64 // when that was
	warnEvictedMicros int64 // the log may say from then on that keys were evicted
	warnMemoryMicros  int64 // and that memory is nearly used up
}

// Bound: us between two warnings of one kind about Redis' health. Below it, a warning is left out.
// Protects the log.
const warnAgainMicros = 3_600_000_000

// Bound: percent of Redis' memory in use. Beyond it, the log warns. Protects limits from evictions.
const memoryWarning = 90

// fields are in their order in shared data.
func (v *vitals) fields() [5]*int64 {
	return [...]*int64{&v.askMicros, &v.evictedKeys, &v.heardMicros, &v.warnEvictedMicros, &v.warnMemoryMicros}
}

// loadVitals reads the record, and what storeVitals needs to change it.
func (s *stream) loadVitals() (v vitals, cas uint32, ok bool) {
	value, cas, err := sharedData{s.host}.Get("sluice.vitals." + s.cluster)
	fields := v.fields()
	if err != nil || len(value) != 8*len(fields) {
		return v, cas, false
	}
	for i, field := range fields {
		*field = int64(binary.LittleEndian.Uint64(value[8*i:]))
	}
	return v, cas, true
}

// storeVitals changes the record, unless another worker has meanwhile.
func (s *stream) storeVitals(v vitals, cas uint32) bool {
	var value []byte
	for _, field := range v.fields() {
		value = binary.LittleEndian.AppendUint64(value, uint64(*field))
	}
	return sharedData{s.host}.Set("sluice.vitals."+s.cluster, value, cas) == nil
}

// Turn implements redis.Host: whether this worker is to ask now.
func (s *stream) Turn(nowMicros int64) bool {
	v, cas, ok := s.loadVitals()
	if !ok || nowMicros < v.askMicros {
		return false
	}
	v.askMicros = nowMicros + redis.ServerStatsMicros
	return s.storeVitals(v, cas)
}

// Examined implements redis.Host. It counts and shows what the server has said, and warns of it.
func (s *stream) Examined(told redis.ServerStats, nowMicros int64) {
	for range maxSharedTries {
		v, cas, ok := s.loadVitals()
		if !ok {
			return
		}
		// A number of evictions that is smaller than the last one is another server's, of which this is the first.
		evicted, withinMicros := int64(0), int64(0)
		if v.evictedKeys != redis.Unknown && told.EvictedKeys > v.evictedKeys {
			evicted, withinMicros = told.EvictedKeys-v.evictedKeys, nowMicros-v.heardMicros
		}
		if told.EvictedKeys != redis.Unknown {
			v.evictedKeys, v.heardMicros = told.EvictedKeys, nowMicros
		}
		warnEvicted := evicted > 0 && nowMicros >= v.warnEvictedMicros
		if warnEvicted {
			v.warnEvictedMicros = nowMicros + warnAgainMicros
		}
		percent := told.MemoryPercent()
		warnMemory := percent > memoryWarning && nowMicros >= v.warnMemoryMicros
		if warnMemory {
			v.warnMemoryMicros = nowMicros + warnAgainMicros
		}
		if !s.storeVitals(v, cas) {
			continue
		}

		m := s.metrics
		m.batch.Add(m.redisEvicted, evicted)
		m.show(&m.redisUsed, metric.Of(metric.RedisMemory, s.cluster, "used"), told.UsedBytes)
		m.show(&m.redisMax, metric.Of(metric.RedisMemory, s.cluster, "max"), told.MaxBytes)
		m.show(&m.redisKeys, metric.Of(metric.RedisKeys, s.cluster), told.Keys)
		name := "redis " + strconv.Quote(s.cluster)
		if warnEvicted {
			s.Warn(name + " has evicted " + strconv.FormatInt(evicted, 10) + " keys in " +
				strconv.FormatInt((withinMicros+500_000)/1_000_000, 10) +
				"s: what they counted begins anew (give Redis more memory, or fewer keys; logged at most once an hour)")
		}
		if warnMemory {
			s.Warn(name + " uses " + strconv.FormatInt(percent, 10) +
				" % of its maxmemory (give Redis more memory, or fewer keys; logged at most once an hour)")
		}
		return
	}
}
