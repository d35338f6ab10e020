package pattern

import (
	"slices"
	"sort"
	"unicode/utf8"
)

// Bounds of an automaton. Beyond them the pattern is simulated: to make the
// automaton would take too long (a millisecond or two) or too much memory (16 KB).
const (
	// Bound: cells of an automaton. Beyond it, the pattern is simulated. Protects memory.
	maxCells = 8192
	// Bound: units of work to make an automaton. Beyond it, the pattern is simulated. Protects the
	// load of a configuration.
	maxMakeUnits = 100_000
)

// Cells of an automaton's table that are no state.
const (
	accepts uint16 = 1<<16 - 1 - iota
	rejects
)

// automaton is a deterministic automaton over classes of ASCII characters: those
// of one class are the same to the pattern.
type automaton struct {
	classes [utf8.RuneSelf]uint8
	width   int      // classes, and one for the end of the text
	table   []uint16 // a row for each state; a cell is where the next row begins
}

// build makes the automaton of p, or none if it would be too large.
func (a *automaton) build(p *Pattern) {
	// The ASCII characters of one class are the same to all instructions and assertions.
	var newlines, words inst
	for r := range rune(utf8.RuneSelf) {
		switch p.placeOf(r) {
		case newline:
			newlines.add(r, r)
		case word:
			words.add(r, r)
		}
	}
	a.split(&newlines)
	a.split(&words)
	for i := range p.insts {
		if in := &p.insts[i]; in.op == opRune {
			a.split(in)
		}
	}
	var examples []rune // of each class
	for r := range rune(utf8.RuneSelf) {
		if int(a.classes[r]) == len(examples) {
			examples = append(examples, r)
		}
	}

	m := maker{width: len(examples) + 1, states: map[string]uint16{}}
	var classes [places][]example // by the place that their characters are
	for class, r := range examples {
		at := p.placeOf(r)
		classes[at] = append(classes[at], example{class, r})
	}
	classes[edge] = []example{{class: len(examples)}}

	m.sim.begin(p)
	if _, ok := m.stateOf(edge, nil); !ok {
		return
	}
	for len(m.todo) > 0 {
		s := m.todo[len(m.todo)-1]
		m.todo = m.todo[:len(m.todo)-1]
		for after := range places {
			m.sim.threads = append(m.sim.threads[:0], s.threads...)
			found := m.sim.close(p, s.before, after)
			for _, e := range classes[after] {
				cell, ok := rejects, true
				switch {
				case found:
					cell = accepts
				case after != edge:
					m.sim.step(p, e.r)
					if m.sim.visits*unitsPerVisit > maxMakeUnits {
						return
					}
					if threads := m.sim.threads; len(threads) > 0 || !p.anchored {
						sort.Sort(inOrder(threads))
						cell, ok = m.stateOf(after, slices.Compact(threads))
					}
				}
				if !ok {
					return
				}
				m.table[int(s.row)+e.class] = cell
			}
		}
	}
	a.width, a.table = m.width, m.table
}

// split divides each class into the characters that an instruction takes, and the
// others. Classes are numbered in the order of their first characters.
func (a *automaton) split(in *inst) {
	var number [2 * utf8.RuneSelf]uint8 // by old class and membership; 0: none yet
	count := uint8(0)
	for r := range rune(utf8.RuneSelf) {
		old := 2 * int(a.classes[r])
		if in.takes(r) {
			old++
		}
		if number[old] == 0 {
			count++
			number[old] = count
		}
		a.classes[r] = number[old] - 1
	}
}

// maker makes the table of an automaton. A state is the threads of a simulation,
// in order, and the place before them.
type maker struct {
	width  int
	sim    simulation
	table  []uint16
	states map[string]uint16 // by name: where the state's row begins
	todo   []state           // whose rows are empty
	name   []byte
}

// example is a class, and a character that is in it.
type example struct {
	class int
	r     rune
}

type state struct {
	row     uint16
	before  place
	threads []uint32
}

// inOrder sorts threads. sort.Sort is code that regexp/syntax brings along.
type inOrder []uint32

func (t inOrder) Len() int           { return len(t) }
func (t inOrder) Less(i, j int) bool { return t[i] < t[j] }
func (t inOrder) Swap(i, j int)      { t[i], t[j] = t[j], t[i] }

// stateOf is where the row of a state begins, which is added if it is new.
func (m *maker) stateOf(before place, threads []uint32) (row uint16, ok bool) {
	m.name = append(m.name[:0], byte(before))
	for _, pc := range threads {
		m.name = append(m.name, byte(pc), byte(pc>>8), byte(pc>>16))
	}
	if row, ok = m.states[string(m.name)]; ok {
		return row, true
	}
	begin := len(m.table)
	if begin+m.width > maxCells {
		return 0, false
	}
	m.table = append(m.table, make([]uint16, m.width)...)
	m.states[string(m.name)] = uint16(begin)
	m.todo = append(m.todo, state{row: uint16(begin), before: before, threads: slices.Clone(threads)})
	return uint16(begin), true
}
