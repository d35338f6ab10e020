package config

import (
	"strconv"
	"strings"

	"github.com/sluiceproxy/sluice/plugin/text"
)

// Bound: bytes of a rule's or limit's name, and of `key_prefix`. Beyond it, the configuration is
// refused. Protects keys in Redis and names of metrics.
const maxNameBytes = 128

// isPrintable reports whether s is printable ASCII, space included.
func isPrintable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

// readName reads the name of a rule or a limit. Names stand in Redis keys, in
// metrics and in structured header fields, which hold printable ASCII only
// (RFC 9651 section 3.3.3).
func (v value) readName() (string, bool) {
	name, ok := v.readNonEmpty(`a name such as "per-user"`)
	if ok && (len(name) > maxNameBytes || !isPrintable(name)) {
		v.mistake("%s is not a name (want at most %d printable ASCII characters)", v.shown(), maxNameBytes)
		return "", false
	}
	return name, ok
}

// readNameOf is readName for get.
func readNameOf(v value) string {
	name, _ := v.readName()
	return name
}

// isToken reports whether s is a token (RFC 9110 section 5.6.2), as methods,
// header names and cookie names are.
func isToken(s string) bool {
	for i := range len(s) {
		if !text.IsToken(s[i]) {
			return false
		}
	}
	return s != ""
}

// isWord reports whether s is ASCII letters, digits and some other bytes alone.
func isWord(s, others string) bool {
	for _, c := range []byte(s) {
		if !text.IsAlpha(c) && !text.IsDigit(c) && strings.IndexByte(others, c) < 0 {
			return false
		}
	}
	return true
}

// instead says how to get at the value of a pseudo header.
var instead = map[string]string{
	":path":      `use "path", or "query" in a key`,
	":authority": `use "host"`,
	":method":    `use "method" in a key, "methods" in a match`,
	":scheme":    `use the property ["request", "scheme"] in a key`,
}

// checkHeaderName reports a name that no header can have.
func (v value) checkHeaderName(name string) bool {
	switch {
	case strings.HasPrefix(name, ":"):
		remedy, ok := instead[strings.ToLower(name)]
		if !ok {
			remedy = "want the name of an ordinary header"
		}
		v.mistake("%s is a pseudo header (%s)", quoted(name), remedy)
		return false
	case !isToken(name) || len(name) > maxNameBytes:
		v.mistake(`%s is not a header name (want one such as "x-api-key")`, quoted(name))
		return false
	}
	return true
}

// readHeaderName reads the name of a header and returns it in lower case.
func (v value) readHeaderName() (string, bool) {
	name, ok := v.readText()
	if !ok || !v.checkHeaderName(name) {
		return "", false
	}
	return strings.ToLower(name), true
}

// PathText writes a path as a configuration does.
func PathText(path []string) string {
	quoted := make([]string, len(path))
	for i := range path {
		quoted[i] = strconv.Quote(path[i])
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}
