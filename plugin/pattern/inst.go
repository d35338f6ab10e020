package pattern

import (
	"regexp/syntax"
	"unicode"
	"unicode/utf8"
)

// inst is a syntax.Inst in the form in which it is soonest looked at.
type inst struct {
	op    op
	out   uint32
	arg   uint32                     // opAlt: the other way; opAssert: a syntax.EmptyOp
	ascii [utf8.RuneSelf / 32]uint32 // opRune: a bit for each character it takes
	from  *syntax.Inst
}

// op is the kind of an instruction.
type op uint8

const (
	opPass   op = iota // on to out
	opRune             // waits for a rune
	opAlt              // on to out and to arg
	opAssert           // on to out if the position is as arg says
	opMatch
	opFail
)

func newInst(from *syntax.Inst) inst {
	in := inst{out: from.Out, arg: from.Arg, from: from}
	switch from.Op {
	case syntax.InstRune, syntax.InstRune1:
		in.op = opRune
		if len(from.Rune) == 1 { // perhaps in either case
			first := from.Rune[0]
			in.add(first, first)
			folds := syntax.Flags(from.Arg)&syntax.FoldCase != 0
			for r := unicode.SimpleFold(first); folds && r != first; r = unicode.SimpleFold(r) {
				in.add(r, r)
			}
			break
		}
		for i := 0; i < len(from.Rune); i += 2 {
			in.add(from.Rune[i], from.Rune[i+1])
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
	case syntax.InstMatch:
		in.op = opMatch
	case syntax.InstFail:
		in.op = opFail
	}
	return in
}

// add adds the ASCII characters of a range.
func (in *inst) add(low, high rune) {
	for r := low; r <= high && r < utf8.RuneSelf; r++ {
		in.ascii[r/32] |= 1 << (r % 32)
	}
}

// takes reports whether the instruction, which waits for a rune, takes this one.
func (in *inst) takes(r rune) bool {
	if r < utf8.RuneSelf {
		return in.ascii[r/32]>>(r%32)&1 == 1
	}
	switch in.from.Op {
	case syntax.InstRune1:
		return r == in.from.Rune[0]
	case syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
		return true
	}
	return in.from.MatchRune(r)
}
