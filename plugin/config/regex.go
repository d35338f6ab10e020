package config

import (
	"regexp"
	"regexp/syntax"
	"strings"
)

// Bounds of a regular expression. A match takes at most time proportional to
// the instructions times the bytes that are matched. Depth and branches bound
// how deep package regexp recurses, compiling and matching, on a stack that does
// not grow: about 600 bytes a level in the plugin.
const (
	maxRegexBytes        = 512
	maxRegexGroups       = 20
	maxRegexInstructions = 1000
	maxRegexDepth        = 256
	maxRegexBranches     = 256
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
	case groupDepth(text) > maxRegexGroups:
		v.mistake("the regular expression nests too deep (want at most %d levels of groups)", maxRegexGroups)
		return nil, ""
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		v.notRegex(err)
		return nil, ""
	}
	if !measure(tree).fits() {
		v.mistake("the regular expression is too large (want one with fewer or smaller repetitions and alternatives)")
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

// regexSize is an upper bound of what a regular expression compiles to, known
// before its repetitions are expanded.
type regexSize struct {
	instructions int
	branches     int // the instructions that consume no character
	depth        int // of the syntax tree
}

func (s regexSize) fits() bool {
	return s.instructions <= maxRegexInstructions && s.branches <= maxRegexBranches && s.depth <= maxRegexDepth
}

func measure(re *syntax.Regexp) regexSize {
	var size regexSize
	for _, sub := range re.Sub {
		s := measure(sub)
		size.instructions += s.instructions
		size.branches += s.branches
		size.depth = max(size.depth, s.depth)
	}
	size.depth++
	switch re.Op {
	case syntax.OpLiteral:
		size.instructions += len(re.Rune)
	case syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		size.instructions++
	case syntax.OpRepeat:
		return size.repeated(re.Min, re.Max)
	case syntax.OpConcat: // nothing but its parts
	default:
		own := max(2, len(re.Sub)) // a group has two, alternatives as many as they are
		size.instructions += own
		size.branches += own
	}
	return size
}

// repeated is the size of x{least,most}: as many copies, of which those beyond
// least are optional, each within the one before. A most of -1 is x{least,}, one
// copy more.
func (s regexSize) repeated(least, most int) regexSize {
	optional := max(1, most-least)
	s.instructions = s.instructions*(least+optional) + optional
	s.branches = s.branches*(least+optional) + optional
	s.depth += 2 * optional
	return s
}
