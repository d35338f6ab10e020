package redis

import "bytes"

// maxErrorText bounds what of a server's error text reaches the log.
const maxErrorText = 200

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
	c.text = append(c.text[:0], text[:min(len(text), maxErrorText)]...)
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
	line := make([]byte, 0, maxErrorText+128)
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

// connectionUseless says whether an error reply will come again for as long as
// one stays connected, while another connection may do better: a primary that
// was demoted answers READONLY, and one whose users changed NOAUTH.
func connectionUseless(text []byte) bool {
	switch string(errorCode(text)) {
	case "READONLY", "MASTERDOWN", "NOAUTH", "WRONGPASS":
		return true
	}
	return false
}
