package redis

import "bytes"

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

// complaint is the last error reply, as far as the log may have it.
type complaint struct {
	command string // AUTH or SELECT; "" for a script
	text    []byte
}

// argumentEcho is how Redis begins to repeat the arguments of a command that it
// does not know. They hold passwords or identities, so the log ends there.
var argumentEcho = []byte(", with args beginning with")

// set keeps a reply's text without what must not be logged: arguments, and all
// but the well-known beginning of a text that holds a credential.
func (c *complaint) set(command string, text []byte, secrets ...string) {
	text, _, _ = bytes.Cut(unwrapScriptError(text), argumentEcho)
	c.command = command
	c.text = append(c.text[:0], text[:min(len(text), maxErrorBytes)]...)
	for _, secret := range secrets {
		if secret != "" && bytes.Contains(text, []byte(secret)) {
			c.text = append(append(c.text[:0], wellKnown(text)...), " ..."...)
		}
	}
}

// code is the first word of the error.
func (c *complaint) code() string { return string(errorCode(c.text)) }

// explain is the complaint for the log: one line of printable ASCII, with the
// remedy where one is known.
func (c *complaint) explain() string {
	line := make([]byte, 0, maxErrorBytes+128)
	if c.command != "" {
		line = append(append(line, c.command...), " refused: "...)
	}
	for _, b := range c.text {
		if b < ' ' || b > '~' {
			b = '?'
		}
		line = append(line, b)
	}
	if r := findRemedy(c.text); r != nil {
		line = append(append(append(line, " ("...), r.text...), ')')
	}
	return string(line)
}

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
	switch string(errorCode(text)) {
	case "READONLY", "MASTERDOWN", "NOAUTH", "WRONGPASS":
		return true
	}
	return false
}
