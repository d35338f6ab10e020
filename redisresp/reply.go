package redisresp

import (
	"bytes"
	"math"
)

// Kind is the type of a reply or of one element of it: the byte that begins it
// on the wire. Null, which RESP2 writes as a bulk string or an array of length
// -1, has the byte that RESP3 gives it.
//
// https://redis.io/docs/latest/develop/reference/protocol-spec/#resp-protocol-description
type Kind byte

// The kinds of RESP2.
const (
	SimpleString Kind = '+'
	Error        Kind = '-'
	Integer      Kind = ':'
	Bulk         Kind = '$'
	Array        Kind = '*'
	Null         Kind = '_'
)

func (k Kind) String() string {
	switch k {
	case SimpleString:
		return "simple string"
	case Error:
		return "error"
	case Integer:
		return "integer"
	case Bulk:
		return "bulk string"
	case Array:
		return "array"
	case Null:
		return "null"
	}
	return "no reply"
}

// A Reply is one decoded reply, or one element of an array. Its bytes belong to
// the buffer that was decoded and are valid as long as that is not changed.
type Reply struct {
	Kind Kind
	// Int is the value of an Integer and the number of elements of an Array.
	Int int64
	// Bytes is the text of a SimpleString or Error, the body of a Bulk, and the
	// elements of an Array as they were sent; [Reply.Iter] walks those.
	Bytes []byte

	integers []int64 // the Decoder's
}

// Integers are the elements of an Array of a few integers and nothing else, read already. They
// are good until the Decoder decodes again. Of any other reply they are nil.
func (r Reply) Integers() []int64 { return r.integers }

// ErrorPrefix is the first word of an Error, such as ERR, NOSCRIPT or WRONGTYPE,
// and nil for another kind.
//
// https://redis.io/docs/latest/develop/reference/protocol-spec/#simple-errors
func (r Reply) ErrorPrefix() []byte {
	if r.Kind != Error {
		return nil
	}
	prefix, _, _ := bytes.Cut(r.Bytes, []byte{' '})
	return prefix
}

// Iter walks the elements of an Array, and nothing for another kind:
//
//	it := reply.Iter()
//	for it.Next() {
//		use(it.Reply())
//	}
func (r Reply) Iter() Iter {
	it := Iter{elements: r.Bytes}
	if r.Kind == Array {
		it.left = r.Int
	}
	return it
}

// An Iter walks the elements of an array in order, in time proportional to
// their bytes, without allocating. It belongs to the [Reply] it came from.
type Iter struct {
	elements []byte
	at       cursor
	left     int64
	reply    Reply
}

// unlimited is for bytes that a Decoder has let through.
var unlimited = Limits{Bytes: math.MaxInt32, Line: math.MaxInt32}

// Next steps to the next element and reports whether there is one.
func (it *Iter) Next() bool {
	if it.left <= 0 {
		return false
	}
	el, outcome, _ := it.at.next(it.elements, &unlimited)
	if outcome != Complete {
		it.left = 0
		return false
	}
	it.left--
	if el.kind == Array {
		for left := el.n; left > 0; left-- { // over its elements, and all that is nested in them
			nested, outcome, _ := it.at.next(it.elements, &unlimited)
			if outcome != Complete {
				break
			}
			if nested.kind == Array {
				left += nested.n
			}
		}
		el.end = it.at.pos
	}
	it.reply = el.reply(it.elements)
	return true
}

// Reply is the element that Next stepped to.
func (it *Iter) Reply() Reply { return it.reply }
