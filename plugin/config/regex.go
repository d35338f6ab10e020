package config

import (
	"regexp"
	"regexp/syntax"
	"strings"
)

// Bounds of a regular expression. The time of a match is at most proportional
// to the instructions times the bytes that are matched.
const (
	maxRegexBytes        = 512
	maxRegexDepth        = 20
	maxRegexInstructions = 1000
)

// regex compiles a regular expression in RE2's syntax.
func regex(v value) (*regexp.Regexp, string) {
	text, ok := v.nonEmpty("a regular expression")
	switch {
	case !ok:
		return nil, ""
	case len(text) > maxRegexBytes:
		v.mistake("the regular expression has %d bytes (want at most %d)", len(text), maxRegexBytes)
		return nil, ""
	case groupDepth(text) > maxRegexDepth:
		v.mistake("the regular expression nests too deep (want at most %d levels of groups)", maxRegexDepth)
		return nil, ""
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		v.notRegex(err)
		return nil, ""
	}
	if instructions(tree) > maxRegexInstructions {
		v.mistake("the regular expression is too large (want one of at most %d instructions, repetitions multiplied)", maxRegexInstructions)
		return nil, ""
	}
	compiled, err := regexp.Compile(text)
	if err != nil {
		v.notRegex(err)
		return nil, ""
	}
	return compiled, text
}

func (v value) notRegex(err error) {
	v.mistake(`%s is not a regular expression: %s (want RE2 syntax, such as "^/v[0-9]+/")`,
		v.shown(), strings.TrimPrefix(err.Error(), "error parsing regexp: "))
}

// groupDepth is an upper bound of how deep groups nest: it takes escaped
// parentheses and those in brackets for groups too.
func groupDepth(text string) int {
	depth, deepest := 0, 0
	for _, c := range []byte(text) {
		switch c {
		case '(':
			depth++
			deepest = max(deepest, depth)
		case ')':
			depth = max(0, depth-1)
		}
	}
	return deepest
}

// instructions estimates the size of the compiled program before anything is
// expanded: a{1000} is a thousand instructions.
func instructions(re *syntax.Regexp) int {
	size := 1
	if re.Op == syntax.OpLiteral {
		size = len(re.Rune)
	}
	for _, sub := range re.Sub {
		size += instructions(sub)
	}
	if re.Op == syntax.OpRepeat {
		// Max is -1 for none; parsing bounds both by 1000.
		size *= max(re.Min+1, re.Max)
	}
	return size
}
