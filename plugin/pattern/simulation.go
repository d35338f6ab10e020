package pattern

import (
	"regexp/syntax"
	"unicode/utf8"
)

// simulation steps through a program along all its paths at once. Between two
// runes it holds threads: the instructions that come next, before what they ask
// of their position has been looked at.
type simulation struct {
	threads []uint32
	runes   []uint32 // instructions that wait for a rune
	stack   []uint32 // instructions to look at
	reached []uint32 // by instruction: the round that came to it last
	round   uint32
	visits  int // of instructions and threads
}

// unitsPerVisit is the work for a visit, in steps of an automaton.
const unitsPerVisit = 4

// run looks for p in a value from its beginning.
func (s *simulation) run(p *Pattern, value string, units int) (found Result, left int) {
	s.begin(p)
	before := edge
	for {
		after, r, size := edge, rune(-1), 0
		if value != "" {
			if r, size = rune(value[0]), 1; r >= utf8.RuneSelf {
				r, size = utf8.DecodeRuneInString(value) // as in package regexp, U+FFFD if it is not UTF-8
			}
			after = p.placeOf(r)
		}
		found := s.close(p, before, after)
		left = max(units-s.visits*unitsPerVisit, 0)
		switch {
		case found:
			return Yes, left
		case value == "" || p.anchored && len(s.runes) == 0:
			return No, left
		case left == 0:
			return Unknown, 0
		}
		s.step(p, r)
		before, value = after, value[size:]
	}
}

// begin prepares for a text.
func (s *simulation) begin(p *Pattern) {
	if n := len(p.insts); len(s.reached) < n {
		s.reached, s.round = make([]uint32, n), 0
		s.stack = make([]uint32, n)
		s.runes = make([]uint32, 0, n)
		s.threads = make([]uint32, 0, n)
	}
	if s.round > 1<<31 { // rounds are told apart by their number
		clear(s.reached)
		s.round = 0
	}
	s.threads, s.visits = s.threads[:0], 0
}

// What begins after a place, and ends before one.
var (
	beginsAfter = [places]syntax.EmptyOp{
		edge: syntax.EmptyBeginText | syntax.EmptyBeginLine, newline: syntax.EmptyBeginLine,
	}
	endsBefore = [places]syntax.EmptyOp{edge: syntax.EmptyEndText | syntax.EmptyEndLine, newline: syntax.EmptyEndLine}
)

// close follows the threads, and one more that begins here, up to instructions
// that wait for a rune. It reports whether the pattern has been found.
func (s *simulation) close(p *Pattern, before, after place) bool {
	s.round++
	s.runes = s.runes[:0]
	holds := beginsAfter[before] | endsBefore[after] // the assertions that hold between the two places
	if (before == word) != (after == word) {
		holds |= syntax.EmptyWordBoundary
	} else {
		holds |= syntax.EmptyNoWordBoundary
	}
	for _, pc := range s.threads {
		if s.follow(p, pc, holds) {
			return true
		}
	}
	return (before == edge || !p.anchored) && s.follow(p, p.start, holds)
}

// follow looks at an instruction and at those that it leads to without a rune,
// each once in a round.
func (s *simulation) follow(p *Pattern, pc uint32, holds syntax.EmptyOp) bool {
	s.visits++
	waiting := s.push(0, pc)
	for waiting > 0 {
		waiting--
		s.visits++
		pc := s.stack[waiting]
		switch in := &p.insts[pc]; in.op {
		case opMatch:
			return true
		case opFail:
		case opRune:
			s.runes = append(s.runes, pc)
		case opAlt:
			waiting = s.push(waiting, in.out)
			waiting = s.push(waiting, in.arg)
		case opAssert:
			if syntax.EmptyOp(in.arg)&^holds == 0 {
				waiting = s.push(waiting, in.out)
			}
		default:
			waiting = s.push(waiting, in.out)
		}
	}
	return false
}

// push puts an instruction on the stack unless the round has come to it before.
// So the stack never holds more than there are.
func (s *simulation) push(waiting int, pc uint32) int {
	if s.reached[pc] == s.round {
		return waiting
	}
	s.reached[pc] = s.round
	s.stack[waiting] = pc
	return waiting + 1
}

// step moves the threads over a rune.
func (s *simulation) step(p *Pattern, r rune) {
	s.visits += len(s.runes)
	s.threads = s.threads[:0]
	for _, pc := range s.runes {
		if in := &p.insts[pc]; in.takes(r) {
			s.threads = append(s.threads, in.out)
		}
	}
}

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
