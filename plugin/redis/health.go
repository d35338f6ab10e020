package redis

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/sluiceproxy/sluice/plugin/must"
)

// health is whether Redis decides, as far as this worker knows: the breaker at work, and
// what the log says.
type health struct {
	host     Host
	observer Observer
	options  *Options
	breaker  breaker

	refused      string // AUTH or SELECT, of the last error reply; "" for a script
	complaint    []byte // its text, as far as the log may have it
	openError    error  // of the last attempt to open a stream
	reported     string // why Redis does not decide, as logged last; "" if it does
	warned       bool   // a failed request has been logged
	warnedMicros int64  // the last time
}

// failed counts a failure; enough of them open the breaker. Requests in flight
// stay: none waits longer than its timeout, and a stream that works may still
// answer them.
//
// Without replies nothing is known to be behind the connection. Error replies
// may come from one shard of several behind redis_proxy while the others decide,
// so they have to be more than what was decided in the last second.
func (h *health) failed(cause Cause, nowMicros int64) {
	b := &h.breaker
	b.row++
	if cause != ErrorReply {
		b.silent++
	}
	b.decided.advance(nowMicros)
	decided := int64(0)
	for _, n := range b.decided.counts {
		decided += n
	}
	if b.state == Closed && (b.silent >= b.limit || b.row >= b.limit && b.row > decided) {
		h.open(cause, nowMicros)
	}
}

// open begins a pause, the first of an outage or, after a probe that failed, the next. The log says why
// Redis does not decide: when the breaker opens, and again when a probe finds another reason.
func (h *health) open(cause Cause, nowMicros int64) {
	b := &h.breaker
	pauseMicros := b.pauses.next()
	must.Hold(pauseMicros > 0, "a pause ends")
	b.state, b.dueMicros = Open, nowMicros+pauseMicros
	h.observer.BreakerChanged(Open)
	if reason, text := h.why(cause); reason != h.reported {
		h.reported = reason
		h.host.Warn("redis does not decide: " + cause.String() + ": " + text +
			"; the failure mode applies, next probe in " + strconv.FormatInt((pauseMicros+999)/1000, 10) + "ms")
	}
}

// complain keeps an error reply for the log, without what must not be logged: arguments, and all
// but the well-known beginning of a text that holds a credential.
func (h *health) complain(command string, text []byte) {
	text, _, _ = bytes.Cut(unwrapScriptError(text), argumentEcho)
	h.refused = command
	h.complaint = append(h.complaint[:0], text[:min(len(text), maxErrorBytes)]...)
	for _, secret := range [...]string{h.options.Username, h.options.Password} {
		if secret != "" && bytes.Contains(text, []byte(secret)) {
			known := "ERR"
			if r := findRemedy(text); r != nil {
				known = r.prefix
			}
			h.complaint = append(append(h.complaint[:0], known...), " ..."...)
		}
	}
}

// gRPC statuses that a stream through a relay is closed with
// (https://grpc.io/docs/guides/status-codes/): what RBAC refuses, and an unknown path.
const (
	permissionDenied = 7
	unimplemented    = 12
)

// why says for the log what a cause means and what to do about it. Two failures
// of one reason are not told apart.
func (h *health) why(cause Cause) (reason, text string) {
	reason, text = cause.String(), causeTexts[cause].meaning
	switch {
	case cause == ErrorReply:
		// One line of printable ASCII, with the remedy where one is known.
		line := make([]byte, 0, maxErrorBytes+128)
		if h.refused != "" {
			line = append(append(line, h.refused...), " refused: "...)
		}
		for _, b := range h.complaint {
			if b < ' ' || b > '~' {
				b = '?'
			}
			line = append(line, b)
		}
		if r := findRemedy(h.complaint); r != nil {
			line = append(append(append(line, " ("...), r.text...), ')')
		}
		reason, text = string(errorCode(h.complaint)), string(line)
	case cause != Unreachable && cause != Lost:
	case h.host.CloseStatus() == permissionDenied:
		reason, text = "refused", "the relay refuses this proxy (does its RBAC, or an AuthorizationPolicy, list this "+
			"proxy's identity?)"
	case h.host.CloseStatus() == unimplemented:
		reason, text = "no route", "no such route at the relay (does the cluster lead to a relay, and to its port?)"
	case cause == Unreachable && h.openError != nil:
		text = h.openError.Error() + ": " + text
	}
	return reason, text
}

// Bound: us between two lines about failures. Below it, failures are counted, not logged. Protects
// the log.
const warnPauseMicros = 60_000_000

// requestFailed counts a request that Redis does not decide. The log has the
// first of them, and one a minute, while the breaker's own lines do not say it.
func (h *health) requestFailed(cause Cause, nowMicros int64) {
	h.observer.RequestFailed(cause)
	if h.breaker.state != Closed || h.warned && nowMicros-h.warnedMicros < warnPauseMicros {
		return
	}
	h.warned, h.warnedMicros = true, nowMicros
	_, text := h.why(cause)
	h.host.Warn(h.name() + " did not decide a request: " + cause.String() + ": " + text +
		"; the failure mode applied (logged at most once a minute)")
}

// name is the cluster in the log.
func (h *health) name() string { return "redis " + strconv.Quote(h.options.Cluster) }

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
	// Overload: more requests came at once than Redis was asked about in time.
	Overload
	// BreakerOpen: the breaker is open, so nothing was sent.
	BreakerOpen

	// Causes is the number of causes, for tables indexed by Cause.
	Causes = int(BreakerOpen) + 1
)

// causeTexts are each cause's name, in metrics and logs, and what it means in the log when it opens the
// breaker and what to do about it. What an ErrorReply means is in its text.
var causeTexts = [Causes]struct{ name, meaning string }{
	NoCause: {name: "none"},
	Timeout: {
		"timeout", "no reply within redis.timeout (check whether Redis is stopped, overloaded, or slow to reach)",
	},
	Unreachable: {
		"unreachable", "no connection (does Redis run, are the endpoints of this Envoy cluster right, does it have " +
			"the bridge filter?)",
	},
	Lost: {
		"connection_lost", "the connection was closed or stalled (look at Redis' log, and at what is between Envoy " +
			"and Redis)",
	},
	ErrorReply: {name: "error_reply"},
	Malformed: {
		"malformed_reply", "the server does not speak RESP (look at the cluster's endpoints, its bridge filter and " +
			"whether it needs TLS)",
	},
	Overload: {
		"overload", "more requests came at once than Redis was asked about in time (check whether Redis is slow; " +
			"failure.max_pending bounds how many are asked about at a time)",
	},
	BreakerOpen: {name: "breaker_open"},
}

// String is the cause's name.
func (c Cause) String() string {
	if int(c) < Causes {
		return causeTexts[c].name
	}
	return "unknown"
}

// Bound: bytes of a server's error text in the log. Beyond it, the text is cut. Protects the log.
const maxErrorBytes = 200

// argumentEcho is how Redis begins to repeat the arguments of a command that it
// does not know. They hold passwords or identities, so the log ends there.
var argumentEcho = []byte(", with args beginning with")

// errorCode is the first word of an error text, such as READONLY.
func errorCode(text []byte) []byte {
	code, _, _ := bytes.Cut(unwrapScriptError(text), []byte(" "))
	return code
}

// unwrapScriptError finds the error of a command in a script. Before version 7,
// Redis wrapped it: "ERR Error running script (call to f_<sha1>):
// @user_script:1: @user_script: 1: -READONLY You can't write against a read only
// replica."
func unwrapScriptError(text []byte) []byte {
	if bytes.HasPrefix(text, []byte("ERR Error running script")) {
		if i := bytes.LastIndex(text, []byte(": -")); i >= 0 {
			return text[i+len(": -"):]
		}
	}
	return text
}

// connectionUseless reports whether an error reply will come again for as long as
// one stays connected, while another connection may do better: a primary that
// was demoted answers READONLY, and one whose users changed NOAUTH.
func connectionUseless(text []byte) bool {
	return slices.Contains(useless, string(errorCode(text)))
}

// useless are the codes of such errors.
var useless = []string{"READONLY", "MASTERDOWN", "NOAUTH", "WRONGPASS"}

// remedy tells an operator what to do about an error.
type remedy struct{ prefix, text string }

const useRedisProxy = "this is a node of a Redis Cluster: use redis_proxy, see docs/operations.md"

// remedies are found by how the error's text begins: with a code
// (https://redis.io/docs/latest/develop/reference/protocol-spec/#simple-errors),
// or, if that is but ERR, with the words of Redis or of Envoy's redis_proxy.
var remedies = [...]remedy{
	{"DENIED", "Redis is in protected mode: give it a password, or set protected-mode no"},
	{"NOAUTH", "set redis.password or redis.password_env"},
	{"WRONGPASS", "check redis.username and the password"},
	{"ERR invalid password", "check the password that redis_proxy expects"},
	{"ERR AUTH", "the server has no password: remove redis.password or redis.password_env"},
	{"ERR Client sent AUTH", "the server has no password: remove redis.password or redis.password_env"},
	{"ERR wrong number of arguments for 'auth' command", "this server has no users: remove redis.username"},
	{"NOPERM", "give the ACL user the rights that docs/operations.md lists, on keys that begin with redis.key_prefix"},
	{"ERR DB index", "check redis.database"},
	{"ERR invalid DB index", "check redis.database"},
	{"ERR SELECT is not allowed", "a Redis Cluster has database 0 only: remove redis.database"},
	{"ERR max number of clients reached", "raise maxclients"},
	{"ERR unknown command", "the server, or redis_proxy before it, does not offer this command"},
	{"MOVED", useRedisProxy},
	{"ASK", useRedisProxy},
	{"CROSSSLOT", useRedisProxy},
	{"TRYAGAIN", "the Redis Cluster is moving this slot: wait until it is done"},
	{"CLUSTERDOWN", "the Redis Cluster does not cover all slots, or has no majority: see CLUSTER INFO"},
	{"READONLY", "this is a replica: point the cluster's endpoint at the primary"},
	{"MASTERDOWN", "this is a replica that has lost its primary: point the cluster's endpoint at the primary"},
	{"LOADING", "Redis is loading its data set: wait until it is done"},
	{"BUSY", "a script blocks Redis: see SCRIPT KILL"},
	{"OOM", "Redis is full: raise maxmemory, or set maxmemory-policy volatile-lru"},
	{"MISCONF", "Redis cannot save its data and refuses writes: see its log"},
	{"NOREPLICAS", "Redis has fewer replicas than min-replicas-to-write"},
	{"NOSCRIPT", "Redis does not keep a script that it was just sent"},
	{"no upstream host", "redis_proxy has no healthy Redis: look at its cluster's endpoints"},
	{"upstream failure", "redis_proxy lost or could not reach its Redis: look at its cluster's endpoints"},
	{"upstream protocol error", "the server behind redis_proxy does not speak RESP"},
}

// findRemedy is the remedy for an error text, nil if none is known.
func findRemedy(text []byte) *remedy {
	for i := range remedies {
		r := &remedies[i]
		if rest, ok := bytes.CutPrefix(text, []byte(r.prefix)); ok && (len(rest) == 0 || rest[0] == ' ') {
			return r
		}
	}
	return nil
}
