package redis

// Cause is why a request could not be decided by Redis.
type Cause uint8

// The causes.
const (
	// NoCause is the zero value: nothing failed.
	NoCause Cause = iota
	// Timeout: no reply within the configured timeout.
	Timeout
	// Unreachable: the stream could not be opened, or a previous attempt failed
	// moments ago.
	Unreachable
	// Lost: the stream closed before the reply came.
	Lost
	// ErrorReply: Redis answered with an error.
	ErrorReply
	// Malformed: the bytes that came are not what the script returns.
	Malformed
	// Overload: more requests wait than max_pending allows.
	Overload
	// BreakerOpen: the breaker is open, so nothing was sent.
	BreakerOpen

	// Causes is the number of causes, for tables indexed by Cause.
	Causes = int(BreakerOpen) + 1
)

var causeNames = [Causes]string{
	NoCause:     "none",
	Timeout:     "timeout",
	Unreachable: "unreachable",
	Lost:        "connection_lost",
	ErrorReply:  "error_reply",
	Malformed:   "malformed_reply",
	Overload:    "overload",
	BreakerOpen: "breaker_open",
}

// String is the cause's name in metrics and logs.
func (c Cause) String() string {
	if int(c) < Causes {
		return causeNames[c]
	}
	return "unknown"
}

// explain says in the log what a cause that opens the breaker means and what to
// do about it. What an ErrorReply means is in its text.
func (c Cause) explain() string {
	switch c {
	case Timeout:
		return "no reply within redis.timeout (look whether Redis is stopped, overloaded, or slow to reach)"
	case Unreachable:
		return "no connection (look whether Redis runs, and at the endpoints of the cluster redis.cluster)"
	case Lost:
		return "the connection was closed or stalled (look at the log of Redis, and at what is on the way to it)"
	case Malformed:
		return "what answers does not speak RESP (look at the cluster's endpoints, its bridge filter and whether it needs TLS)"
	}
	return ""
}
