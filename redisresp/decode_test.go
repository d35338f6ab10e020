package redisresp

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

func TestDecode(t *testing.T) {
	t.Parallel()
	for _, tc := range wellFormed {
		reply, n, outcome := NewDecoder(Limits{}).Decode([]byte(tc.in + "+next"))
		if outcome != Complete || n != len(tc.in) {
			t.Errorf("%q: %v, %d bytes; want complete, %d", tc.in, outcome, n, len(tc.in))
			continue
		}
		testenv.Same(t, fmt.Sprintf("%q", tc.in), show(reply), tc.want)
	}
}

func TestDecodePrefixIsIncomplete(t *testing.T) {
	t.Parallel()
	for _, tc := range wellFormed {
		for n := range len(tc.in) {
			if _, _, outcome := NewDecoder(Limits{}).Decode([]byte(tc.in[:n])); outcome != Incomplete {
				t.Errorf("%q: %v, want incomplete", tc.in[:n], outcome)
			}
		}
	}
}

func TestDecodeMalformed(t *testing.T) {
	t.Parallel()
	for _, tc := range malformed {
		name := tc.in[:min(len(tc.in), 40)]
		d := NewDecoder(Limits{})
		for range 2 { // it stays malformed
			if _, n, outcome := d.Decode([]byte(tc.in)); outcome != Malformed || n != 0 {
				t.Errorf("%q: %v, %d bytes; want malformed, 0", name, outcome, n)
			}
		}
		testenv.SameError(t, name, d.Err(), tc.err)
		if fault, ok := errors.AsType[*SyntaxError](d.Err()); !ok || fault.Offset != tc.offset {
			t.Errorf("%q: %v, want a SyntaxError at %d", name, d.Err(), tc.offset)
		}
		d.Reset()
		if _, _, outcome := d.Decode([]byte(":1\r\n")); outcome != Complete || d.Err() != nil {
			t.Errorf("%q: after Reset: %v, %v", name, outcome, d.Err())
		}
	}
}

func TestSyntaxErrorText(t *testing.T) {
	t.Parallel()
	d := NewDecoder(Limits{})
	d.Decode([]byte("*1\r\n?"))
	if got, want := d.Err().Error(), "redisresp: offset 4: unknown type byte"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// At each limit a reply passes, and one beyond it does not.
func TestLimits(t *testing.T) {
	t.Parallel()
	array := func(n int) string { return "*" + strconv.Itoa(n) + "\r\n" + strings.Repeat(":1\r\n", n) }
	for _, tc := range []struct {
		name   string
		limits Limits
		pass   string
		fail   string
		err    error
	}{
		{"bulk", Limits{Bytes: 11}, "$5\r\nhello\r\n", "$6\r\nhello!\r\n", ErrTooLarge},
		{"bytes of lines", Limits{Bytes: 12}, "*2\r\n:1\r\n:2\r\n", "*2\r\n:1\r\n:22\r\n", ErrTooLarge},
		{"line", Limits{Line: 5}, "+hello\r\n", "+hello!\r\n", ErrLineTooLong},
		{"line of an integer", Limits{Line: 5}, ":-1234\r\n", ":-12345\r\n", ErrLineTooLong},
		{"bytes of an integer", Limits{Bytes: 5}, ":12\r\n", ":123\r\n", ErrTooLarge},
		{"elements", Limits{Elements: 3}, array(3), array(4), ErrTooMany},
		{
			"elements of nested arrays",
			Limits{Elements: 3},
			"*1\r\n*2\r\n:1\r\n:1\r\n", "*1\r\n*3\r\n:1\r\n:1\r\n:1\r\n",
			ErrTooMany,
		},
		{"depth", Limits{Depth: 2}, "*1\r\n*1\r\n:1\r\n", "*1\r\n*1\r\n*1\r\n:1\r\n", ErrTooDeep},
		{
			"greatest depth",
			Limits{Depth: 1 << 20},
			strings.Repeat("*1\r\n", MaxDepth) + ":1\r\n",
			strings.Repeat("*1\r\n", MaxDepth+1), ErrTooDeep,
		},
		{"default elements", Limits{}, array(4096), array(4097), ErrTooMany},
		{
			"default line",
			Limits{},
			"+" + strings.Repeat("x", 64<<10) + "\r\n", "+" + strings.Repeat("x", 64<<10+1) + "\r\n",
			ErrLineTooLong,
		},
	} {
		d := NewDecoder(tc.limits)
		if _, n, outcome := d.Decode([]byte(tc.pass)); outcome != Complete || n != len(tc.pass) {
			t.Errorf("%s: %v (%v), want complete", tc.name, outcome, d.Err())
		}
		if _, _, outcome := d.Decode([]byte(tc.fail)); outcome != Malformed || !errors.Is(d.Err(), tc.err) {
			t.Errorf("%s: %v (%v), want %v", tc.name, outcome, d.Err(), tc.err)
		}
	}
}

// A limit is found out from the head of an element, before its body came.
func TestLimitsNeedOnlyTheHead(t *testing.T) {
	t.Parallel()
	for _, in := range []string{"$2000000\r\n", "*5000\r\n"} {
		d := NewDecoder(Limits{})
		if _, _, outcome := d.Decode([]byte(in)); outcome != Malformed {
			t.Errorf("%q: %v, want malformed", in, outcome)
		}
	}
}

func TestDecodePipelined(t *testing.T) {
	t.Parallel()
	var all []byte
	for _, tc := range wellFormed {
		all = append(all, tc.in...)
	}
	d := NewDecoder(Limits{})
	for _, tc := range wellFormed {
		reply, n, outcome := d.Decode(all)
		if outcome != Complete || show(reply) != tc.want {
			t.Fatalf("%q: %v, %+v", tc.in, outcome, reply)
		}
		all = all[n:]
	}
	if _, _, outcome := d.Decode(all); outcome != Incomplete || len(all) != 0 {
		t.Errorf("at the end: %v with %d bytes left", outcome, len(all))
	}
}

func TestErrorPrefix(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"-NOSCRIPT No matching script.\r\n": "NOSCRIPT",
		"-ERR\r\n":                          "ERR",
		"-\r\n":                             "",
		"+ERR no error\r\n":                 "",
	} {
		reply, _, _ := NewDecoder(Limits{}).Decode([]byte(in))
		if got := string(reply.ErrorPrefix()); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

// The bytes of a reply end where it ends: appending to them must not reach what
// follows in the buffer.
func TestReplyIsCutOff(t *testing.T) {
	t.Parallel()
	buf := []byte("$5\r\nhello\r\n:1\r\n")
	reply, _, _ := NewDecoder(Limits{}).Decode(buf)
	_ = append(reply.Bytes, "XXXXXX"...)
	if string(buf) != "$5\r\nhello\r\n:1\r\n" {
		t.Errorf("the buffer was changed to %q", buf)
	}
}

// An Iter over bytes that no Decoder let through ends, at the latest with them.
func TestIterOverBadBytes(t *testing.T) {
	t.Parallel()
	for _, r := range []Reply{
		{Kind: Array, Int: 1 << 62},
		{Kind: Array, Int: 1 << 62, Bytes: []byte("*9223372036854775807\r\n:1\r\n")},
		{Kind: Array, Int: 2, Bytes: []byte(":1\r\nx")},
		{Kind: Array, Int: -1, Bytes: []byte(":1\r\n")},
		{Kind: Bulk, Int: 1, Bytes: []byte(":1\r\n")},
	} {
		n := 0
		for it := r.Iter(); it.Next(); {
			n++
		}
		if n > 1 {
			t.Errorf("%+v: %d elements", r, n)
		}
	}
}

func TestDecodeAllocatesNothing(t *testing.T) {
	for _, in := range []string{
		"*4\r\n:1\r\n:9\r\n:1000000\r\n:0\r\n",
		"*3\r\n$5\r\nhello\r\n*2\r\n:1\r\n:2\r\n+OK\r\n",
		"-NOSCRIPT No matching script.\r\n",
		"$99999999999999\r\n",
		"*4000\r\n:1\r\n", // incomplete
	} {
		d, buf := NewDecoder(Limits{}), []byte(in)
		allocs := testing.AllocsPerRun(100, func() {
			d.Reset()
			reply, _, _ := d.Decode(buf)
			reply.ErrorPrefix()
			for it := reply.Iter(); it.Next(); {
				sink += it.Reply().Int
			}
			if d.Err() != nil {
				sink++
			}
		})
		if allocs != 0 {
			t.Errorf("%q: %v allocations, want none", in, allocs)
		}
	}
}

var sink int64

// The integers of an array are the same whether the Decoder has kept them or Iter reads them, also
// where the reply was cut; it keeps them where there are few, and nothing else.
func TestIntegers(t *testing.T) {
	t.Parallel()
	many := func(n int) string { return "*" + strconv.Itoa(n) + "\r\n" + strings.Repeat(":-7\r\n", n) }
	for in, want := range map[string]int{
		"*1\r\n:5\r\n":                   1,
		"*3\r\n:1\r\n:-2\r\n:+3\r\n":     3,
		many(maxIntegers):                maxIntegers,
		many(maxIntegers + 1):            0,
		"*0\r\n":                         0,
		":5\r\n":                         0,
		"$1\r\n5\r\n":                    0,
		"*2\r\n:1\r\n$1\r\nx\r\n":        0,
		"*2\r\n*2\r\n:1\r\n:2\r\n:3\r\n": 0,
		"*1\r\n*1\r\n:1\r\n":             0,
		"*2\r\n:1\r\n*1\r\n:2\r\n":       0,
		"*1\r\n*-1\r\n":                  0,
		"*2\r\n:1\r\n-ERR\r\n":           0,
		"*2\r\n:9223372036854775807\r\n:" + "-9223372036854775808\r\n": 2,
	} {
		d := NewDecoder(Limits{})
		d.Decode([]byte("*2\r\n:8\r\n:9\r\n")) // of which nothing may be left
		for n := range len(in) {
			d.Decode([]byte(in[:n]))
		}
		reply, _, outcome := d.Decode([]byte(in))
		if outcome != Complete {
			t.Fatalf("%q: %v", in, outcome)
		}
		kept, read := reply.Integers(), []int64(nil)
		for it := reply.Iter(); it.Next() && want > 0; {
			read = append(read, it.Reply().Int)
		}
		if len(kept) != want || !slices.Equal(kept, read) {
			t.Errorf("%q: %d are kept, %d are read; want %d", in, kept, read, want)
		}
	}
}
