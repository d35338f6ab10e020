package pattern

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

// run looks for the text in a value.
func (l *literal) run(value string, units int) (found Result, left int) {
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
