// Package regexsize measures regular expressions before they are compiled, so that
// neither memory, nor the stack, nor the time to load them can run away.
package regexsize

import (
	"regexp/syntax"

	"github.com/sluiceproxy/sluice/plugin/message"
)

// Bounds of a regular expression. A match takes at most time proportional to
// the instructions times the bytes that are matched. Depth and branches bound
// how deep package regexp/syntax recurses on a stack that does not grow: about 600
// bytes a level in the plugin.
const (
	// Bound: bytes of a regular expression. Beyond it, the configuration is refused. Protects
	// memory.
	MaxBytes = 512
	// Bound: groups in each other. Beyond it, the configuration is refused. Protects the stack of
	// package regexp/syntax.
	maxGroups = 20 // nested in each other
	// Bound: instructions of a regular expression. Beyond it, the configuration is refused.
	// Protects the time of a match.
	maxInstructions = 1000
	// Bound: levels of its syntax tree. Beyond it, the configuration is refused. Protects the stack
	// of package regexp/syntax.
	maxTreeDepth = 256
	// Bound: instructions that read no character. Beyond it, the configuration is refused. Protects
	// the stack of package regexp/syntax.
	maxBranches = 256
)

// A BoundError says which bound a regular expression exceeds and, in
// parentheses, what would be right.
type BoundError string

func (e BoundError) Error() string { return string(e) }

// Check reports whether a text is a regular expression in RE2's syntax that may be
// compiled. The error is a BoundError, or what package regexp/syntax says of the
// text.
func Check(text string) error {
	if len(text) > MaxBytes {
		return BoundError(message.Sprintf("the regular expression has %d bytes (want at most %d)", len(text), MaxBytes))
	}
	// Escaped parentheses and those in brackets count as groups, too.
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
	if deepest > maxGroups {
		return BoundError(message.Sprintf(
			"the regular expression nests too deep (want at most %d levels of groups)", maxGroups,
		))
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return err
	}
	s := measure(tree)
	if s.instructions > maxInstructions || s.branches > maxBranches || s.depth > maxTreeDepth {
		return BoundError("the regular expression is too large (want one with fewer or smaller repetitions and " +
			"alternatives)")
	}
	return nil
}

// size is an upper bound of what a regular expression compiles to, known before
// its repetitions are expanded.
type size struct {
	instructions int
	branches     int // the instructions that consume no character
	depth        int // of the syntax tree
}

func measure(re *syntax.Regexp) size {
	var total size
	for _, sub := range re.Sub {
		s := measure(sub)
		total.instructions += s.instructions
		total.branches += s.branches
		total.depth = max(total.depth, s.depth)
	}
	total.depth++
	switch re.Op {
	case syntax.OpLiteral:
		total.instructions += len(re.Rune)
	case syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		total.instructions++
	case syntax.OpRepeat:
		// x{least,most} is as many copies. Those beyond least are optional, each within the one before.
		// A most of -1 is x{least,}, one copy more.
		optional := max(1, re.Max-re.Min)
		total.instructions = total.instructions*(re.Min+optional) + optional
		total.branches = total.branches*(re.Min+optional) + optional
		total.depth += 2 * optional
	case syntax.OpConcat: // nothing but its parts
	default:
		own := max(2, len(re.Sub)) // a group has two, alternatives as many as they are
		total.instructions += own
		total.branches += own
	}
	return total
}
