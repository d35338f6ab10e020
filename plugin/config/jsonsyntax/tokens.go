package jsonsyntax

import (
	"strings"

	"github.com/sluiceproxy/sluice/plugin/text"
)

// quotedString reads a JSON string, escapes included.
func (s *scanner) quotedString(next step) step {
	start := s.pos
	for s.pos++; s.pos < len(s.text); s.pos++ {
		switch c := s.text[s.pos]; {
		case c == '"':
			s.pos++
			return next
		case c < ' ':
			return s.unexpected(`the string's closing quote; control characters are written as escapes such as "\n"`)
		case c == '\\':
			if !s.escape() {
				return s.fail(`not an escape (want one of \" \\ \/ \b \f \n \r \t \u0000)`)
			}
		}
	}
	s.pos = start
	return s.fail("the string that starts here has no end (want a closing quote)")
}

// escape moves from a backslash to the last byte of its escape. If none stands
// there, it stays at the backslash and reports false.
func (s *scanner) escape() bool {
	rest := s.text[s.pos+1:]
	switch {
	case rest == "":
		return false
	case strings.IndexByte(`"\/bfnrt`, rest[0]) >= 0:
		s.pos++
		return true
	case rest[0] != 'u' || len(rest) < 5:
		return false
	}
	for _, c := range []byte(rest[1:5]) {
		if text.HexValue(c) > 15 {
			return false
		}
	}
	s.pos += 5
	return true
}

// number reads [ minus ] int [ frac ] [ exp ]. If something else stands here,
// it fails at the start.
func (s *scanner) number() step {
	start := s.pos
	s.skipSign("-")
	if !s.integer() || !s.fraction() || !s.exponent() {
		s.pos = start
		return s.fail("not a JSON number (want one such as 100)")
	}
	return afterValue
}

func (s *scanner) skipSign(signs string) {
	if s.pos < len(s.text) && strings.IndexByte(signs, s.text[s.pos]) >= 0 {
		s.pos++
	}
}

func (s *scanner) integer() bool {
	zero := s.peek() == '0'
	n := s.digits()
	return n == 1 || n > 1 && !zero
}

func (s *scanner) fraction() bool {
	if s.peek() != '.' {
		return true
	}
	s.pos++
	return s.digits() > 0
}

func (s *scanner) exponent() bool {
	if c := s.peek(); c != 'e' && c != 'E' {
		return true
	}
	s.pos++
	s.skipSign("+-")
	return s.digits() > 0
}

// digits reads decimal digits and counts them.
func (s *scanner) digits() int {
	start := s.pos
	for text.IsDigit(s.peek()) {
		s.pos++
	}
	return s.pos - start
}

func (s *scanner) literal() step {
	for _, word := range []string{"true", "false", "null"} {
		if strings.HasPrefix(s.text[s.pos:], word) {
			s.pos += len(word)
			return afterValue
		}
	}
	return s.unexpected("a value; strings stand in double quotes")
}
