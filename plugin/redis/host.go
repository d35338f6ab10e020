package redis

import (
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/metric"
)

// Waiter is told what becomes of each check that was flushed. Each check gets
// exactly one last call, Decided or Failed, however long that takes; Expired may
// come before it, once. In a call a Waiter may refund charges, but begins no
// request.
type Waiter interface {
	// Remake makes the check anew: the script charged nothing, because the check was made for
	// another time (r.AtMicros) or another override (r.OtherOverride). check comes as it was sent,
	// without the tag and the strikes, which stay; the connection copies the changed check.
	Remake(index int, r *Reply, check *Check, nowMicros int64) Remade
	// Decided brings Redis' answer. After Expired it is a late one.
	Decided(index int, r *Reply, nowMicros int64)
	// Failed tells that Redis will never decide this check; NoCause after NotAgain.
	Failed(index int, cause Cause, nowMicros int64)
	// Expired tells that the check has waited for the timeout.
	Expired(index int, nowMicros int64)
}

// Remade says whether a check that was made for another time or override is sent again.
type Remade uint8

const (
	// NoSense: the reply makes no sense for this check.
	NoSense Remade = iota
	// NotAgain: it is not sent again, as no request waits for it any more.
	NotAgain
	// Again: it is sent as it was remade.
	Again
)

// Host is the world around a Conn. A Host must not call back
// into the Conn during these calls, except for Closed where noted.
type Host interface {
	// OpenStream opens a stream. Closed may be called before it returns.
	OpenStream() error
	// Send writes whole commands to the open stream. Closed may be called before
	// it returns.
	Send(commands []byte) error
	// CloseStream ends the stream. From then on neither Received nor Closed is
	// called for it.
	CloseStream()
	// SwapStreams makes another stream the one that OpenStream, Send and CloseStream are
	// about, and the second time the first one again. There are at most two, of which
	// either may be open.
	SwapStreams()
	// CloseStatus is the gRPC status that the last stream to end was closed with, 0 if it
	// is not known (https://grpc.io/docs/guides/status-codes/).
	CloseStatus() uint32
	// Warn and Info log one line each.
	Warn(line string)
	Info(line string)
	// Tried brings the line about the startup check, see Options.Try: Redis can be used,
	// or not.
	Tried(ok bool, line string)
	// Turn reports whether it is this worker's turn to ask how the server is: none of the
	// Envoy's has for ServerStatsMicros.
	Turn(nowMicros int64) bool
	// Examined brings what the server has said.
	Examined(v ServerStats, nowMicros int64)
}

// Observer counts what happens. It calls nothing of the Conn.
type Observer interface {
	// Count counts an event n times.
	Count(e metric.Event, n int64)
	// RequestFailed: Redis did not decide a request, or one of its checks. A
	// request is told once, with the first cause.
	RequestFailed(cause Cause)
	// RoundTrip: the time from sending a check to its decision. Late ones are
	// told too, or Redis would never seem slower than the timeout.
	RoundTrip(micros int64)
	// Reconnected: Redis has answered on a stream in place of one that was lost. What answers now
	// may not hold the charges that were made before.
	Reconnected()
	// BreakerChanged: the breaker is in another state now.
	BreakerChanged(state BreakerState)
}

// Options configure a Conn. Durations are in microseconds.
type Options struct {
	KeyPrefix          string
	Username, Password string
	Database           int64
	TimeoutMicros      int64
	MaxPending         int64 // requests that may have commands in the pipe
	Breaker            config.Breaker
	Cluster            string // Envoy's name of the cluster, for the log
	Try                bool   // whether to try Redis with the first tick: Conn.Try
	MaxAgeMicros       int64  // after which a stream is replaced; 0: never
	Overrides          bool   // the startup check warns of a Redis that may evict overrides
	Seed               uint64 // for jitter and nonces: different in each worker
}
