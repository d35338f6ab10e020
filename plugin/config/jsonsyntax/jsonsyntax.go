// Package jsonsyntax finds the place where a text stops being JSON, for people
// who have to mend it. It walks over the text with a stack of bounded size,
// whatever the text holds.
package jsonsyntax

import (
	"strings"
	"unicode/utf8"

	"github.com/sluiceproxy/sluice/plugin/message"
)

// Mistake is where a text stops being JSON, and why.
type Mistake struct {
	Line   int // from 1
	Column int // from 1, in characters
	// Problem says what is wrong and, in parentheses, what would be right.
	Problem string
}

// Find reports the first mistake of a text that should be one JSON value
// (RFC 8259) in UTF-8, whose objects and arrays nest at most maxDepth deep. It
// reports false if there is none.
func Find(text string, maxDepth int) (Mistake, bool) {
	s := scanner{text: text}
	for s.pos < len(text) && s.problem == "" {
		r, size := utf8.DecodeRuneInString(text[s.pos:])
		if r == utf8.RuneError && size == 1 {
			s.problem = message.Sprintf("byte 0x%02x is not UTF-8 (want JSON in UTF-8)", text[s.pos])
			break
		}
		s.pos += size
	}
	if s.problem == "" {
		s.pos = 0
		s.scan(maxDepth)
	}
	if s.problem == "" {
		return Mistake{}, false
	}
	before := text[:s.pos]
	lineStart := strings.LastIndexByte(before, '\n') + 1
	return Mistake{
		Line: strings.Count(before, "\n") + 1, Column: utf8.RuneCountInString(before[lineStart:]) + 1, Problem: s.problem,
	}, true
}
