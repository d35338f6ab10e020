// Package jsonsyntax finds the place where a text stops being JSON, for people
// who have to mend it. It walks over the text with a stack of bounded size,
// whatever the text holds.
package jsonsyntax

import (
	"strings"
	"unicode/utf8"

	"github.com/sluiceproxy/sluice/plugin/message"
	"github.com/sluiceproxy/sluice/plugin/text"
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

// scanner walks over a JSON text, to its end or to a problem.
type scanner struct {
	text    string
	pos     int
	problem string
}

// expected is what must come next.
type expected uint8

const (
	anyValue     expected = iota
	firstElement          // or "]"
	firstName             // or "}"
	fieldName
	colon
	afterValue
)

// scan reads one value. At most deepest objects and arrays may be open.
func (s *scanner) scan(deepest int) {
	var open []byte // the '{' and '[' not closed yet
	for next := anyValue; s.problem == ""; {
		for s.skip(" \t\r\n") {
		}
		c := s.peek()
		closes := next == firstElement && c == ']' || next == firstName && c == '}'
		if next == afterValue && len(open) > 0 {
			bracket := open[len(open)-1]
			closes = c == bracket+2 // as "]" follows "[" in ASCII
			if !closes && c != ',' {
				s.unexpected(message.Sprintf(`"," or "%s"`, []byte{bracket + 2}))
				return
			}
			next = anyValue
			if bracket == '{' {
				next = fieldName
			}
			if !closes {
				s.pos++
				continue
			}
		}
		if closes {
			open = open[:len(open)-1]
			s.pos++
			next = afterValue
			continue
		}
		switch {
		case next == afterValue:
			if s.pos < len(s.text) {
				s.unexpected("nothing after the configuration")
			}
			return
		case next == colon:
			if c != ':' {
				s.unexpected(`":" after the field's name`)
				return
			}
			s.pos++
			next = anyValue
		case next == firstName || next == fieldName:
			if c == '"' {
				s.quotedString()
			} else if c == '}' {
				s.unexpected("a field; is the comma before it one too many?")
			} else {
				s.unexpected("a field's name in double quotes")
			}
			next = colon
		case c == '{' || c == '[':
			if len(open) == deepest {
				s.problem = message.Sprintf("nested too deep (want at most %d levels)", deepest)
				return
			}
			open = append(open, c)
			s.pos++
			next = firstName
			if c == '[' {
				next = firstElement
			}
		default:
			s.scalar(c)
			next = afterValue
		}
	}
}

// unexpected is the problem of the character that stands here in place of what is wanted.
func (s *scanner) unexpected(want string) {
	if s.pos >= len(s.text) {
		s.problem = message.Sprintf("the text ends too early (want %s)", want)
		return
	}
	r, _ := utf8.DecodeRuneInString(s.text[s.pos:])
	s.problem = message.Sprintf("unexpected %q (want %s)", r, want)
}

// peek is the next byte, or 0 at the end. JSON has no NUL, so the two need not
// be told apart.
func (s *scanner) peek() byte {
	if s.pos < len(s.text) {
		return s.text[s.pos]
	}
	return 0
}

// scalar reads a string, a number or a word, which begins with c.
func (s *scanner) scalar(c byte) {
	switch {
	case c == '"':
		s.quotedString()
	case c == '-' || text.IsDigit(c):
		// [ minus ] int [ frac ] [ exp ]
		start := s.pos
		s.skip("-")
		zero := s.peek() == '0'
		n := s.digits()
		valid := n == 1 || n > 1 && !zero
		if s.skip(".") {
			valid = s.digits() > 0 && valid
		}
		if s.skip("eE") {
			s.skip("+-")
			valid = s.digits() > 0 && valid
		}
		if !valid {
			s.pos, s.problem = start, "not a JSON number (want one such as 100)"
		}
	case c >= 'a' && c <= 'z' || c == '\'':
		for _, word := range []string{"true", "false", "null"} {
			if strings.HasPrefix(s.text[s.pos:], word) {
				s.pos += len(word)
				return
			}
		}
		s.unexpected("a value; strings stand in double quotes")
	case c == '}' || c == ']':
		s.unexpected("a value; is the comma before it one too many?")
	default:
		s.unexpected("a value")
	}
}

// skip reads one byte that is among some.
func (s *scanner) skip(some string) bool {
	if strings.IndexByte(some, s.peek()) < 0 { // none of them is a NUL
		return false
	}
	s.pos++
	return true
}

// digits reads decimal digits and counts them.
func (s *scanner) digits() int {
	start := s.pos
	for text.IsDigit(s.peek()) {
		s.pos++
	}
	return s.pos - start
}

// quotedString reads a JSON string, escapes included.
func (s *scanner) quotedString() {
	start := s.pos
	for s.pos++; s.pos < len(s.text); s.pos++ {
		c := s.text[s.pos]
		if c == '"' {
			s.pos++
			return
		}
		if c < ' ' {
			s.unexpected(`the string's closing quote; control characters are written as escapes such as "\n"`)
			return
		}
		if c != '\\' {
			continue
		}
		rest := s.text[s.pos+1:]
		if rest != "" && strings.IndexByte(`"\/bfnrt`, rest[0]) >= 0 {
			s.pos++
			continue
		}
		valid := len(rest) >= 5 && rest[0] == 'u'
		for i := 1; valid && i < 5; i++ {
			valid = text.HexValue(rest[i]) <= 15
		}
		if !valid {
			s.problem = `not an escape (want one of \" \\ \/ \b \f \n \r \t \u0000)`
			return
		}
		s.pos += 5
	}
	s.pos, s.problem = start, "the string that starts here has no end (want a closing quote)"
}
