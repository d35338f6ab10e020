package redisresp

import "cmp"

// Outcome says whether bytes are a reply.
type Outcome byte

const (
	// Incomplete: they begin a reply; more have to come.
	Incomplete Outcome = iota
	// Complete: they begin with a whole reply.
	Complete
	// Malformed: nothing that follows can make them a reply, or the reply is over
	// a limit. Where the next reply begins is unknown, so the connection has to be
	// given up. [Decoder.Err] says what is wrong.
	Malformed
)

func (o Outcome) String() string {
	switch o {
	case Incomplete:
		return "incomplete"
	case Complete:
		return "complete"
	}
	return "malformed"
}

// A Decoder finds where replies end, one after the other. It keeps its place in
// a reply that is not complete yet: over all calls each byte is looked at a
// constant number of times, however finely the reply was cut. It has a fixed
// size and never allocates.
type Decoder struct {
	limits   Limits
	at       cursor
	top      element          // the reply itself, once its first line is known
	started  bool             // top is known
	left     [MaxDepth]uint32 // per open array: elements still to come
	depth    int              // open arrays
	elements int              // that further arrays may have, before Limits.Elements
	fault    SyntaxError      // its Err is set once a reply was malformed

	integers [maxIntegers]int64 // the first of its elements that are integers
	read     int                // how many there are
}

// maxIntegers is how many integers a Decoder keeps.
//
// Bound: integers of an array that are read once. Beyond it, they are read again when they are
// used. Protects memory.
const maxIntegers = 16

// NewDecoder makes a Decoder for one connection.
func NewDecoder(limits Limits) *Decoder {
	limits.Bytes = cmp.Or(limits.Bytes, defaultBytes)
	limits.Line = cmp.Or(limits.Line, defaultLine)
	limits.Elements = cmp.Or(limits.Elements, defaultElements)
	limits.Depth = min(cmp.Or(limits.Depth, defaultDepth), MaxDepth)
	d := &Decoder{limits: limits}
	d.Reset()
	return d
}

// Reset makes the decoder ready for a new connection.
func (d *Decoder) Reset() {
	d.fault = SyntaxError{}
	d.nextReply()
}

// Decode looks at the beginning of buf. If that is a whole reply, the result is
// the reply, its length n in bytes, and Complete; the next reply begins at
// buf[n:]. If it is Incomplete, call again with a buffer that begins with the
// same bytes and has more of them, at the same address or another. Malformed
// stays until [Decoder.Reset].
func (d *Decoder) Decode(buf []byte) (reply Reply, n int, outcome Outcome) {
	if d.fault.Err != nil {
		return Reply{}, 0, Malformed
	}
	if !d.started && len(buf) > 0 && buf[0] == byte(Array) {
		if count, n := d.allIntegers(buf); n > 0 {
			reply = Reply{Kind: Array, Int: int64(count), Bytes: buf[len("*1\r\n"):n:n], integers: d.integers[:count:count]}
			return reply, n, Complete
		}
	}
	for {
		start := d.at.pos
		el, outcome, err := d.at.next(buf, &d.limits)
		if outcome == Complete && !d.started {
			d.started, d.top = true, el
		}
		switch isArray := el.kind == Array; {
		case outcome != Complete:
		case isArray && d.depth == d.limits.Depth:
			err = ErrTooDeep
		case isArray && el.n > int64(d.elements):
			err = ErrTooMany
		case isArray && el.n > 0:
			d.elements -= int(el.n)
			d.left[d.depth] = uint32(el.n)
			d.depth++
		default: // it may close arrays that it completes
			if el.kind == Integer && d.depth == 1 && d.read < maxIntegers {
				d.integers[d.read] = el.n
				d.read++
			}
			for d.depth > 0 {
				if d.left[d.depth-1]--; d.left[d.depth-1] > 0 {
					break
				}
				d.depth--
			}
		}
		if err != nil {
			d.fault = SyntaxError{Offset: start, Err: err}
			return Reply{}, 0, Malformed
		}
		if outcome == Incomplete {
			return Reply{}, 0, Incomplete
		}
		if d.depth == 0 {
			break
		}
	}
	n = d.at.pos
	if d.top.kind == Array {
		d.top.end = n
	}
	reply = d.top.reply(buf)
	if d.read > 0 && int64(d.read) == d.top.n {
		reply.integers = d.integers[:d.read:d.read]
	}
	d.nextReply()
	return reply, n, Complete
}

// allIntegers reads an array of one to nine usual integers in one pass, as nearly all replies of scripts
// are, and returns how many they are and the length of the reply. If it is anything else, also one that
// is not complete, n is 0, and the slow path reads it.
func (d *Decoder) allIntegers(buf []byte) (count, n int) {
	if len(buf) < len("*1\r\n:1\r\n") || buf[2] != '\r' || buf[3] != '\n' {
		return 0, 0
	}
	count = int(buf[1] - '0')
	if count < 1 || count > 9 || count > d.limits.Elements || d.limits.Depth < 1 || d.limits.Line < safeDigits+1 {
		return 0, 0
	}
	i := len("*1\r\n")
	for k := range count {
		if i >= len(buf) || buf[i] != byte(Integer) {
			return 0, 0
		}
		i++
		negative := i < len(buf) && buf[i] == '-'
		if negative {
			i++
		}
		digits, value := i, int64(0)
		for i < len(buf) {
			digit := buf[i] - '0'
			if digit > 9 {
				break
			}
			value = value*10 + int64(digit)
			i++
		}
		if i == digits || i-digits > safeDigits || i+1 >= len(buf) || buf[i] != '\r' || buf[i+1] != '\n' {
			return 0, 0
		}
		i += len("\r\n")
		if negative {
			value = -value
		}
		d.integers[k] = value
	}
	if i > d.limits.Bytes {
		return 0, 0
	}
	return count, i
}

// Err is nil until a reply was malformed, and a [*SyntaxError] from then on.
func (d *Decoder) Err() error {
	if d.fault.Err == nil {
		return nil
	}
	return &d.fault
}

func (d *Decoder) nextReply() {
	d.at = cursor{}
	d.started = false
	d.depth, d.read = 0, 0
	d.elements = d.limits.Elements
}
