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
	at, problem := invalidUTF8(text)
	if problem == "" {
		s := scanner{text: text, deepest: maxDepth}
		for step := anyValue; step != nil; {
			s.skipSpace()
			step = step(&s)
		}
		at, problem = s.pos, s.problem
	}
	if problem == "" {
		return Mistake{}, false
	}
	line, column := position(text, at)
	return Mistake{Line: line, Column: column, Problem: problem}, true
}

// position is the line and the column of an offset.
func position(text string, at int) (line, column int) {
	before := text[:at]
	lineStart := strings.LastIndexByte(before, '\n') + 1
	return strings.Count(before, "\n") + 1, utf8.RuneCountInString(before[lineStart:]) + 1
}

func invalidUTF8(text string) (at int, problem string) {
	for at < len(text) {
		r, size := utf8.DecodeRuneInString(text[at:])
		if r == utf8.RuneError && size == 1 {
			return at, message.Sprintf("byte 0x%02x is not UTF-8 (want JSON in UTF-8)", text[at])
		}
		at += size
	}
	return 0, ""
}
