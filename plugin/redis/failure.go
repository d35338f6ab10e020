package redis

import (
	"bytes"

	"github.com/sluiceproxy/sluice/redisresp"
)

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

// remedies tell an operator what to do about an error reply, by its first word
// (https://redis.io/docs/latest/develop/reference/protocol-spec/#simple-errors).
var remedies = [...]struct{ code, remedy string }{
	{"NOAUTH", "set redis.password or redis.password_env"},
	{"WRONGPASS", "check redis.username and the password"},
	{"NOPERM", "let the ACL user run EVAL, EVALSHA and the script's commands on the key prefix"},
	{"MOVED", "this is a Redis Cluster node: point the cluster at an internal listener with redis_proxy, see docs/operations.md"},
	{"ASK", "this is a Redis Cluster node: point the cluster at an internal listener with redis_proxy, see docs/operations.md"},
	{"CROSSSLOT", "key_prefix must not contain braces"},
	{"CLUSTERDOWN", "the Redis Cluster has uncovered slots or lost its majority"},
	{"READONLY", "this is a replica: point the cluster at the primary"},
	{"MASTERDOWN", "the replica has lost its primary"},
	{"LOADING", "Redis is loading its data set"},
	{"BUSY", "a script blocks Redis: see SCRIPT KILL"},
	{"OOM", "Redis is full: raise maxmemory, or set maxmemory-policy volatile-ttl"},
	{"MISCONF", "Redis cannot persist and refuses writes"},
	{"NOSCRIPT", "Redis forgets scripts as soon as it has them"},
	{"NOREPLICAS", "Redis has fewer replicas than min-replicas-to-write"},
}

// remedy finds the advice for an error reply; "" if there is none.
func remedy(reply []byte) string {
	code, _, _ := bytes.Cut(reply, []byte(" "))
	for i := range remedies {
		if string(code) == remedies[i].code {
			return remedies[i].remedy
		}
	}
	return ""
}

// wrongServer says whether an error reply means that another server should be
// asked, so that the connection is worth replacing: a demoted primary answers
// READONLY for as long as one stays connected to it.
func wrongServer(r redisresp.Reply) bool {
	code := string(r.ErrorPrefix())
	return code == "READONLY" || code == "MASTERDOWN"
}

// notAuthenticated says whether an error reply means that no command of this
// connection can succeed.
func notAuthenticated(r redisresp.Reply) bool {
	code := string(r.ErrorPrefix())
	return code == "NOAUTH" || code == "WRONGPASS"
}

// maxErrorText bounds what of a server's error text reaches the log.
const maxErrorText = 200

// describe is an error reply for the log: one line of printable ASCII, with the
// remedy where one is known.
func describe(reply []byte) string {
	out := make([]byte, 0, maxErrorText+80)
	for _, b := range reply[:min(len(reply), maxErrorText)] {
		if b < ' ' || b > '~' {
			b = '?'
		}
		out = append(out, b)
	}
	if r := remedy(reply); r != "" {
		out = append(append(out, " ("...), r...)
		out = append(out, ')')
	}
	return string(out)
}
