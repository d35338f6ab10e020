package pattern

import "regexp/syntax"

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
		in := newInst(&prog.Inst[i])
		p.insts = append(p.insts, in)
		if in.op == opAssert {
			p.asserts |= syntax.EmptyOp(in.arg)
		}
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
type Machine struct {
	sim simulation
}

// Match reports whether a value holds the pattern, and how many of the units are
// left. It is Unknown if they do not suffice; then none is left.
func (m *Machine) Match(p *Pattern, value string, units int) (found Result, left int) {
	switch {
	case p.literal != nil:
		return p.literal.run(value, units)
	case p.auto.table == nil:
		return m.sim.run(p, value, units)
	}
	found, read := p.auto.run(value, units)
	if units -= read; found != Unknown || units <= 0 {
		return found, max(units, 0)
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
