package redisresp

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// result is all a caller sees of one reply.
type result struct {
	outcome Outcome
	n       int
	reply   string // as show writes it
	fault   SyntaxError
}

// decode hands over so many bytes and then one more each time, in a buffer of its own, so that nothing can
// be read behind its end or kept from the call before.
func decode(in []byte, limits Limits, from int) result {
	d := NewDecoder(limits)
	for size := from; size <= len(in); size++ {
		buf := append(make([]byte, 0, size), in[:size]...)
		if reply, n, outcome := d.Decode(buf); outcome != Incomplete {
			return result{outcome, n, show(reply), d.fault}
		}
	}
	return result{}
}

func TestDecodeSplitAtEveryByte(t *testing.T) {
	t.Parallel()
	var inputs []string
	for _, tc := range wellFormed {
		inputs = append(inputs, tc.in)
	}
	for _, tc := range malformed {
		if len(tc.in) < 1000 {
			inputs = append(inputs, tc.in)
		}
	}
	for _, in := range inputs {
		whole, growing := decode([]byte(in), Limits{}, len(in)), decode([]byte(in), Limits{}, 0)
		testenv.Same(t, fmt.Sprintf("%q, byte by byte", in), growing, whole)
	}
}

// However finely a reply was cut, a byte that was searched is not searched again,
// which keeps the work linear: the bytes are spoilt as soon as they were looked
// at, and the reply is found all the same.
func TestDecodeDoesNotLookAgain(t *testing.T) {
	t.Parallel()
	spoilt := strings.Repeat("\n", 2000)
	for name, tc := range map[string]struct {
		in    string
		spoil func(d *Decoder, buf []byte)
	}{
		"line": {
			"+" + strings.Repeat("x", 1000) + "\r\n",
			func(d *Decoder, buf []byte) { copy(buf[1:d.at.line], spoilt) },
		},
		"elements": {
			"*100\r\n" + strings.Repeat(":1234567890\r\n", 50) + strings.Repeat("$2\r\nab\r\n", 50),
			func(d *Decoder, buf []byte) { copy(buf[:d.at.pos], spoilt) },
		},
	} {
		d, buf := NewDecoder(Limits{}), []byte(nil)
		for i, b := range []byte(tc.in) {
			buf = append(buf, b)
			_, _, outcome := d.Decode(buf)
			if i+1 == len(tc.in) {
				if outcome != Complete {
					t.Errorf("%s: %v (%v) at the end", name, outcome, d.Err())
				}
				break
			}
			if outcome != Incomplete {
				t.Errorf("%s: %v (%v) after %d of %d bytes", name, outcome, d.Err(), i+1, len(tc.in))
				break
			}
			tc.spoil(d, buf)
		}
	}
}

// While a decoder waits for the rest of a body it looks at nothing at all.
func TestDecodeWaitsWithoutLooking(t *testing.T) {
	t.Parallel()
	d, in := NewDecoder(Limits{}), []byte("*1\r\n$5\r\nhello\r\n")
	d.Decode(in[:9])
	for size := 9; size < len(in); size++ {
		spoilt := make([]byte, size)
		if _, _, outcome := d.Decode(spoilt); outcome != Incomplete {
			t.Errorf("at %d bytes: %v", size, outcome)
		}
	}
	if _, n, outcome := d.Decode(in); outcome != Complete || n != len(in) {
		t.Errorf("%v, %d bytes; want complete, %d", outcome, n, len(in))
	}
}
