package jsonsyntax

import (
	"strings"
	"unicode/utf8"

	"github.com/sluiceproxy/sluice/plugin/message"
	"github.com/sluiceproxy/sluice/plugin/text"
)

// scanner walks over a JSON text. A step reads what must come next and returns
// the step after it, or nil at the end of the text and at a problem.
type scanner struct {
	text    string
	pos     int
	deepest int    // how many objects and arrays may be open
	open    []byte // the '{' and '[' not closed yet
	problem string
}

type step func(*scanner) step

func (s *scanner) fail(format string, args ...any) step {
	s.problem = message.Sprintf(format, args...)
	return nil
}

// unexpected fails at the character that stands here in place of what is wanted.
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

// peek is the next byte, or 0 at the end. JSON has no NUL, so the two need not
// be told apart.
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
	case c == '-' || text.IsDigit(c):
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
	if len(s.open) == s.deepest {
		return s.fail("nested too deep (want at most %d levels)", s.deepest)
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
