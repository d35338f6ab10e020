package pattern

import (
	"regexp/syntax"
	"unicode"
	"unicode/utf8"
)

// Pattern is a compiled pattern. It does not change.
type Pattern struct {
	literal *literal // nil: the pattern is a regular expression

	insts    []inst
	start    uint32
	anchored bool           // begins with ^: it can match at the beginning only
	asserts  syntax.EmptyOp // all that it asks of positions: ^, $, \b and so on
	auto     automaton
}

// Compile prepares a regular expression in the syntax of package regexp. Its size
// and depth must have been checked, as compiling recurses.
func Compile(expression string) (*Pattern, error) {
	tree, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return nil, err
	}
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, err
	}
	p := &Pattern{start: uint32(prog.Start), anchored: prog.StartCond()&syntax.EmptyBeginText != 0}
	for i := range prog.Inst {
		from := &prog.Inst[i]
		in := inst{out: from.Out, arg: from.Arg, from: from}
		switch from.Op {
		case syntax.InstRune, syntax.InstRune1:
			in.op = opRune
			for i := 0; i+1 < len(from.Rune); i += 2 {
				in.add(from.Rune[i], from.Rune[i+1])
			}
			if len(from.Rune) == 1 { // perhaps in either case
				first := from.Rune[0]
				in.add(first, first)
				folds := syntax.Flags(from.Arg)&syntax.FoldCase != 0
				for r := unicode.SimpleFold(first); folds && r != first; r = unicode.SimpleFold(r) {
					in.add(r, r)
				}
			}
		case syntax.InstRuneAny:
			in.op = opRune
			in.add(0, utf8.RuneSelf-1)
		case syntax.InstRuneAnyNotNL:
			in.op = opRune
			in.add(0, '\n'-1)
			in.add('\n'+1, utf8.RuneSelf-1)
		case syntax.InstAlt, syntax.InstAltMatch:
			in.op = opAlt
		case syntax.InstEmptyWidth:
			in.op = opAssert
			p.asserts |= syntax.EmptyOp(in.arg)
		case syntax.InstMatch:
			in.op = opMatch
		case syntax.InstFail:
			in.op = opFail
		}
		p.insts = append(p.insts, in)
	}
	p.auto.build(p)
	return p, nil
}

// Result says whether a value contains a pattern. The smallest of several results is the
// result for all of them together.
type Result uint8

// The results.
const (
	No Result = iota
	Unknown
	Yes
)

// Is is the result that is known.
func Is(found bool) Result {
	if found {
		return Yes
	}
	return No
}

// Not is the result of the opposite question. What is unknown stays unknown.
func (r Result) Not() Result { return Yes - r }

// Machine is the memory of Match. The zero Machine is ready.
type Machine struct{ sim simulation }

// Match reports whether a value holds the pattern, and how many of the units are
// left. It is Unknown if they do not suffice; then none is left.
func (m *Machine) Match(p *Pattern, value string, units int) (found Result, left int) {
	if l := p.literal; l != nil {
		if l.text == "" {
			return Yes, units
		}
		n := 0
		for i := range len(value) {
			if i*unitsPerByte >= units {
				return Unknown, 0
			}
			if n = l.next(n, value[i]); n == len(l.text) {
				return Yes, units - i*unitsPerByte
			}
		}
		return No, max(units-len(value)*unitsPerByte, 0)
	}
	a := &p.auto
	if a.table == nil {
		return m.sim.run(p, value, units)
	}
	read, row, limit := 0, uint(0), min(len(value), units)
	for ; read < limit && value[read] < utf8.RuneSelf; read++ {
		next := a.table[row+uint(a.classes[value[read]])]
		if next >= rejects {
			return Is(next == accepts), units - read - 1
		}
		row = uint(next)
	}
	switch units = max(units-read, 0); {
	case read == len(value):
		return Is(a.table[int(row)+a.width-1] == accepts), units
	case units == 0:
		return Unknown, 0
	}
	return m.sim.run(p, value, units) // a byte beyond ASCII
}

// place is a position's neighbour, as far as the assertions of a pattern can see it.
type place uint8

const (
	other place = iota
	newline
	word
	edge // the beginning or the end of the text
	places
)

// placeOf is the place of a rune as far as p can tell places apart: the less it
// can, the smaller the automaton.
func (p *Pattern) placeOf(r rune) place {
	switch {
	case r == '\n' && p.asserts&(syntax.EmptyBeginLine|syntax.EmptyEndLine) != 0:
		return newline
	case p.asserts&(syntax.EmptyWordBoundary|syntax.EmptyNoWordBoundary) != 0 && syntax.IsWordChar(r):
		return word
	}
	return other
}

// literal is a text to be found anywhere. The search is that of Knuth, Morris and
// Pratt (Fast pattern matching in strings, SIAM J. Comput. 6(2), 1977).
type literal struct {
	text string
	// back is, for each length of a beginning of the text, how long a shorter one
	// is that it ends with.
	back []int32
}

// unitsPerByte is the work for a byte: each is compared twice at most, on average.
const unitsPerByte = 3

// Literal prepares the search for a text.
func Literal(text string) *Pattern {
	l := &literal{text: text, back: make([]int32, len(text)+1)}
	for i := 1; i < len(text); i++ {
		l.back[i+1] = int32(l.next(int(l.back[i]), text[i]))
	}
	return &Pattern{literal: l}
}

// next is how much of the text has been found when c follows the first n bytes. These
// are not the whole text.
func (l *literal) next(n int, c byte) int {
	for n > 0 && l.text[n] != c {
		n = int(l.back[n])
	}
	if l.text[n] == c {
		n++
	}
	return n
}
