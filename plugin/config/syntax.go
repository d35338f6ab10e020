package config

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxDepth bounds how deep objects and arrays may nest. The deepest field of a
// configuration stands at 8, and each "not" adds one; what reads it recurses.
const maxDepth = 20

// syntaxMistake finds where text stops being JSON (RFC 8259), with a bounded
// stack whatever the text holds. It reports false for valid JSON.
func syntaxMistake(text string) (Mistake, bool) {
	at, problem := invalidUTF8(text)
	if problem == "" {
		s := scanner{text: text}
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
	return Mistake{Path: fmt.Sprintf("line %d, column %d", line, column), Problem: problem}, true
}

// position counts lines and, in characters, columns from 1.
func position(text string, at int) (line, column int) {
	before := text[:at]
	lineStart := strings.LastIndexByte(before, '\n') + 1
	return strings.Count(before, "\n") + 1, utf8.RuneCountInString(before[lineStart:]) + 1
}

func invalidUTF8(text string) (at int, problem string) {
	for at < len(text) {
		r, size := utf8.DecodeRuneInString(text[at:])
		if r == utf8.RuneError && size == 1 {
			return at, fmt.Sprintf("byte 0x%02x is not UTF-8 (want JSON in UTF-8)", text[at])
		}
		at += size
	}
	return 0, ""
}

// scanner walks over a JSON text. A step reads what must come next, and names
// the step after it: nil at the end of the text or at a problem.
type scanner struct {
	text    string
	pos     int
	open    []byte // the '{' and '[' not closed yet
	problem string
}

type step func(*scanner) step

func (s *scanner) fail(format string, args ...any) step {
	s.problem = fmt.Sprintf(format, args...)
	return nil
}

// unexpected fails at what stands here, which is not what is wanted.
func (s *scanner) unexpected(want string) step {
	if s.pos >= len(s.text) {
		return s.fail("the text ends too early (want %s)", want)
	}
	r, _ := utf8.DecodeRuneInString(s.text[s.pos:])
	return s.fail("unexpected %q (want %s)", r, want)
}

func (s *scanner) skipSpace() {
	for s.pos < len(s.text) && strings.IndexByte(" \t\r\n", s.text[s.pos]) >= 0 {
		s.pos++
	}
}

// peek is the next byte, or 0 at the end; a NUL is no part of JSON either.
func (s *scanner) peek() byte {
	if s.pos < len(s.text) {
		return s.text[s.pos]
	}
	return 0
}

func anyValue(s *scanner) step {
	switch c := s.peek(); {
	case c == '{':
		return s.enter(c, firstName)
	case c == '[':
		return s.enter(c, firstElement)
	case c == '"':
		return s.quotedString(afterValue)
	case c == '-' || isDigit(c):
		return s.number()
	case c >= 'a' && c <= 'z':
		return s.literal()
	case c == '}' || c == ']':
		return s.unexpected("a value; is the comma before it one too many?")
	case c == '\'':
		return s.unexpected(`a value; strings stand in double quotes`)
	}
	return s.unexpected("a value")
}

func (s *scanner) enter(bracket byte, next step) step {
	if len(s.open) == maxDepth {
		return s.fail("nested too deep (want at most %d levels)", maxDepth)
	}
	s.open = append(s.open, bracket)
	s.pos++
	return next
}

func firstElement(s *scanner) step {
	if s.peek() == ']' {
		return s.leave()
	}
	return anyValue
}

func firstName(s *scanner) step {
	if s.peek() == '}' {
		return s.leave()
	}
	return fieldName
}

func fieldName(s *scanner) step {
	switch s.peek() {
	case '"':
		return s.quotedString(colon)
	case '}':
		return s.unexpected("a field; is the comma before it one too many?")
	}
	return s.unexpected("a field's name in double quotes")
}

func colon(s *scanner) step {
	if s.peek() != ':' {
		return s.unexpected(`":" after the field's name`)
	}
	s.pos++
	return anyValue
}

func (s *scanner) leave() step {
	s.open = s.open[:len(s.open)-1]
	s.pos++
	return afterValue
}

func afterValue(s *scanner) step {
	if len(s.open) == 0 {
		if s.pos < len(s.text) {
			return s.unexpected("nothing after the configuration")
		}
		return nil
	}
	next, end, want := anyValue, byte(']'), `"," or "]"`
	if s.open[len(s.open)-1] == '{' {
		next, end, want = fieldName, '}', `"," or "}"`
	}
	switch s.peek() {
	case ',':
		s.pos++
		return next
	case end:
		return s.leave()
	}
	return s.unexpected(want)
}
