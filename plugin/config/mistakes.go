package config

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/sluiceproxy/sluice/plugin/message"
)

// Mistake is one thing that is wrong with a configuration.
type Mistake struct {
	// Path leads to the value, such as "rules[1].limits[0].window", or to the
	// enclosing object for a missing field or a wrong combination. It is empty
	// for the whole configuration and "line 3, column 5" for broken JSON.
	Path string
	// Problem says what is wrong and, in parentheses, what would be right.
	Problem string

	more int // how many mistakes that are not shown this one stands for
}

// String is the mistake alone, without how many there are.
func (m Mistake) String() string {
	if m.Path == "" {
		return "sluice: " + m.Problem
	}
	return "sluice: " + m.Path + ": " + m.Problem
}

// Mistakes is the error that Parse returns: every mistake of a configuration,
// in the order of the text, except for those that concern two places in it.
type Mistakes []Mistake

// Error puts each mistake on a line of its own.
func (m Mistakes) Error() string { return strings.Join(m.Lines(), "\n") }

// Lines are the mistakes as Envoy logs them, each an entry of its own. Where
// there are several, each says which one it is: "(mistake 2 of 4)".
func (m Mistakes) Lines() []string {
	total := 0
	for _, mistake := range m {
		total += max(1, mistake.more)
	}
	lines := make([]string, len(m))
	for i, mistake := range m {
		lines[i] = mistake.String()
		if total > 1 && mistake.more == 0 {
			lines[i] += message.Sprintf(" (mistake %d of %d)", i+1, total)
		}
	}
	return lines
}

// Lines are the log entries for an error: one for each of Mistakes, or its text.
func Lines(err error) []string {
	if mistakes, ok := err.(Mistakes); ok {
		return mistakes.Lines()
	}
	return []string{err.Error()}
}

// Bound: bytes of a value that a mistake repeats. Beyond it, the value is cut. Protects the log.
const maxShownBytes = 64

// quoted shows a string of the configuration, cut to maxShownBytes bytes.
func quoted(s string) string {
	if len(s) <= maxShownBytes {
		return strconv.Quote(s)
	}
	at := maxShownBytes
	for at > 0 && !utf8.RuneStart(s[at]) { // cut no character
		at--
	}
	return strconv.Quote(s[:at]) + "..."
}

// quotedEach quotes each name.
func quotedEach(names []string) []string {
	shown := make([]string, len(names))
	for i, name := range names {
		shown[i] = quoted(name)
	}
	return shown
}

// quotedList shows names as `"a", "b"`.
func quotedList(names []string) string { return strings.Join(quotedEach(names), ", ") }
