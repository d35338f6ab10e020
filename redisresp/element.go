package redisresp

import "math"

// An element is a whole scalar, or the head of an array.
type element struct {
	kind       Kind
	n          int64 // the value of an Integer, the number of elements of an Array
	start, end int   // the body in the buffer; for an Array both are where its elements begin
}

// reply is the element as the caller sees it, borrowing from buf.
func (el element) reply(buf []byte) Reply {
	r := Reply{Kind: el.kind, Int: el.n}
	if el.kind != Integer && el.kind != Null {
		r.Bytes = buf[el.start:el.end:el.end]
	}
	return r
}

// A cursor steps through the elements of a buffer that may still grow, and
// remembers how far it got, so that no byte is searched twice.
type cursor struct {
	pos  int // where the next element begins
	line int // how far its line has been searched for the end; 0: not at all
	need int // length of the buffer below which nothing new can be found out
}

// next scans the element at c.pos and steps behind it. Unless the outcome is
// Complete, c.pos stays, so that the call can be repeated with a longer buffer.
// It decides at the first byte that settles the matter, so a Complete or
// Malformed does not depend on what follows, nor on how the bytes were cut.
func (c *cursor) next(buf []byte, l *Limits) (element, Outcome, error) {
	if len(buf) <= c.pos || len(buf) < c.need {
		return element{}, Incomplete, nil
	}
	el := element{kind: Kind(buf[c.pos]), start: c.pos + 1}
	switch el.kind {
	case Integer:
		if c.line == 0 && c.integer(buf, l, &el) {
			return el, Complete, nil
		}
	case SimpleString, Error, Bulk, Array:
	default:
		return element{}, Malformed, ErrType
	}
	outcome, err := c.findLineEnd(buf, l)
	if outcome != Complete {
		return element{}, outcome, err
	}
	el.end = c.line
	behind := c.line + len("\r\n")
	line := buf[el.start:el.end]
	negative := len(line) > 0 && line[0] == '-'
	var n uint64
	switch el.kind {
	case Integer: // [<+|->]<value>
		limit := uint64(math.MaxInt64)
		if negative {
			limit++
		}
		if negative || len(line) > 0 && line[0] == '+' {
			line = line[1:]
		}
		n, err = parseDecimal(line, limit)
		if el.n = int64(n); negative {
			el.n = -el.n // also right for the smallest int64
		}
	case Bulk, Array: // a length or count, or the -1 of null
		switch {
		case string(line) == "-1":
			el.kind = Null
		case negative && len(line) > 1:
			if _, err = parseDecimal(line[1:], math.MaxInt64); err == nil {
				err = ErrNegative
			}
		default:
			n, err = parseDecimal(line, math.MaxInt64)
			el.n = int64(n)
		}
	}
	if err != nil {
		return element{}, Malformed, err
	}
	switch el.kind {
	case Bulk:
		if el.n > int64(l.Bytes-behind-len("\r\n")) {
			return element{}, Malformed, ErrTooLarge
		}
		el.start, el.end, el.n = behind, behind+int(el.n), 0
		c.need = el.end + len("\r\n")
		if len(buf) < c.need {
			return element{}, Incomplete, nil
		}
		if buf[el.end] != '\r' || buf[el.end+1] != '\n' {
			return element{}, Malformed, ErrBulkEnd
		}
		behind = c.need
	case Array:
		el.start, el.end = behind, behind
	}
	c.step(behind)
	return el, Complete, nil
}

// integer reads an integer in one pass if it is usual: complete, and of few digits, as nearly all
// integers of scripts are. It reports whether it has; if not, the slow path reads it.
func (c *cursor) integer(buf []byte, l *Limits, el *element) bool {
	i := el.start
	negative := i < len(buf) && buf[i] == '-'
	if negative {
		i++
	}
	digits, n := i, uint64(0)
	for ; i < len(buf); i++ {
		digit := buf[i] - '0'
		if digit > 9 {
			break
		}
		n = n*10 + uint64(digit)
	}
	behind := i + len("\r\n")
	switch count := i - digits; {
	case count == 0, count > safeDigits, i-el.start > l.Line, behind > l.Bytes:
		return false
	case behind > len(buf), buf[i] != '\r', buf[i+1] != '\n':
		return false
	}
	el.end, el.n = i, int64(n)
	if negative {
		el.n = -el.n
	}
	c.step(behind)
	return true
}

func (c *cursor) step(pos int) {
	*c = cursor{pos: pos}
}

// findLineEnd leaves in c.line where the CR LF begins that ends the line.
func (c *cursor) findLineEnd(buf []byte, l *Limits) (Outcome, error) {
	start := c.pos + 1
	last := l.Bytes - len("\r\n") // where the CR may be
	tooLong := ErrTooLarge
	if last-start > l.Line {
		last, tooLong = start+l.Line, ErrLineTooLong
	}
	i := max(c.line, start)
	for end := min(len(buf), last+1); i < end && buf[i] != '\r' && buf[i] != '\n'; {
		i++
	}
	c.line, c.need = i, i+1
	switch {
	case i > last:
		return Malformed, tooLong
	case i == len(buf):
		return Incomplete, nil
	case buf[i] == '\n':
		return Malformed, ErrLine
	}
	c.need = i + len("\r\n")
	if len(buf) < c.need {
		return Incomplete, nil
	}
	if buf[i+1] != '\n' {
		return Malformed, ErrLine
	}
	return Complete, nil
}

// safeDigits is how many digits never exceed an int64. A division for each of them would
// cost more than all else that is done to a reply.
const safeDigits = 18

// parseDecimal reads one or more digits, as a number not above the limit. A byte
// that is not a digit is the fault even if there are too many digits before it.
func parseDecimal(b []byte, limit uint64) (uint64, error) {
	if len(b) == 0 {
		return 0, ErrNumber
	}
	n, overflow := uint64(0), false
	for i, ch := range b {
		digit := uint64(ch - '0')
		if digit > 9 {
			return 0, ErrNumber
		}
		if i >= safeDigits {
			overflow = overflow || n > (limit-digit)/10
		}
		if !overflow {
			n = n*10 + digit
		}
	}
	if overflow {
		return 0, ErrOverflow
	}
	return n, nil
}
