package redisresp

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// value is a reply as a tree of its own, to compare with.
type value struct {
	Kind     Kind
	Int      int64
	Text     string
	Elements []value
}

// tree copies what a Reply borrows.
func tree(r Reply) value {
	v := value{Kind: r.Kind}
	switch r.Kind {
	case Integer:
		v.Int = r.Int
	case Array:
		for it := r.Iter(); it.Next(); {
			v.Elements = append(v.Elements, tree(it.Reply()))
		}
	default:
		v.Text = string(r.Bytes)
	}
	return v
}

// encode writes a tree by the specification, with nothing of this package.
func (v value) encode() string {
	switch v.Kind {
	case SimpleString:
		return "+" + v.Text + "\r\n"
	case Error:
		return "-" + v.Text + "\r\n"
	case Integer:
		return fmt.Sprintf(":%d\r\n", v.Int)
	case Bulk:
		return fmt.Sprintf("$%d\r\n%s\r\n", len(v.Text), v.Text)
	case Array:
		var b strings.Builder
		fmt.Fprintf(&b, "*%d\r\n", len(v.Elements))
		for _, el := range v.Elements {
			b.WriteString(el.encode())
		}
		return b.String()
	default:
		return "$-1\r\n"
	}
}

func (v value) equal(w value) bool {
	return v.Kind == w.Kind && v.Int == w.Int && v.Text == w.Text &&
		slices.EqualFunc(v.Elements, w.Elements, value.equal)
}

func integers(ns ...int64) value {
	v := value{Kind: Array}
	for _, n := range ns {
		v.Elements = append(v.Elements, value{Kind: Integer, Int: n})
	}
	return v
}

// wellFormed has bytes, and the reply that they decode to.
var wellFormed = []struct {
	in   string
	want value
}{
	{"+OK\r\n", value{Kind: SimpleString, Text: "OK"}},
	{"+\r\n", value{Kind: SimpleString}},
	{"-ERR unknown command\r\n", value{Kind: Error, Text: "ERR unknown command"}},
	{":0\r\n", value{Kind: Integer}},
	{":1000\r\n", value{Kind: Integer, Int: 1000}},
	{":+7\r\n", value{Kind: Integer, Int: 7}},
	{":-7\r\n", value{Kind: Integer, Int: -7}},
	{":-0\r\n", value{Kind: Integer}},
	{":007\r\n", value{Kind: Integer, Int: 7}},
	{":00000000000000000000000000007\r\n", value{Kind: Integer, Int: 7}},
	{":999999999999999999\r\n", value{Kind: Integer, Int: 999999999999999999}},
	{":-999999999999999999\r\n", value{Kind: Integer, Int: -999999999999999999}},
	{":1000000000000000000\r\n", value{Kind: Integer, Int: 1000000000000000000}},
	{":9223372036854775807\r\n", value{Kind: Integer, Int: math.MaxInt64}},
	{":-9223372036854775808\r\n", value{Kind: Integer, Int: math.MinInt64}},
	{"$5\r\nhello\r\n", value{Kind: Bulk, Text: "hello"}},
	{"$05\r\nhello\r\n", value{Kind: Bulk, Text: "hello"}},
	{"$0\r\n\r\n", value{Kind: Bulk}},
	{"$4\r\n\r\n\r\n\r\n", value{Kind: Bulk, Text: "\r\n\r\n"}},
	{"$-1\r\n", value{Kind: Null}},
	{"*-1\r\n", value{Kind: Null}},
	{"*0\r\n", value{Kind: Array}},
	{"*3\r\n:1\r\n:2\r\n:-3\r\n", integers(1, 2, -3)},
	{
		"*2\r\n*2\r\n:1\r\n:2\r\n$1\r\nx\r\n",
		value{Kind: Array, Elements: []value{integers(1, 2), {Kind: Bulk, Text: "x"}}},
	},
	{
		"*3\r\n*0\r\n*-1\r\n-NO\r\n",
		value{Kind: Array, Elements: []value{{Kind: Array}, {Kind: Null}, {Kind: Error, Text: "NO"}}},
	},
	{strings.Repeat("*1\r\n", 8) + ":5\r\n", nested(8, value{Kind: Integer, Int: 5})},
}

func nested(depth int, inner value) value {
	for range depth {
		inner = value{Kind: Array, Elements: []value{inner}}
	}
	return inner
}

// malformed is at which element each of these goes wrong, and why.
var malformed = []struct {
	in     string
	err    error
	offset int
}{
	{"\n", ErrType, 0},
	{"\r\n", ErrType, 0},
	{"x\r\n", ErrType, 0},
	{"_\r\n", ErrType, 0}, // RESP3
	{"*1\r\n?\r\n", ErrType, 4},
	{"+OK\n", ErrLine, 0},
	{"+O\nK\r\n", ErrLine, 0},
	{"+O\rK\r\n", ErrLine, 0},
	{"+OK\r\r\n", ErrLine, 0},
	{"-ERR\rX\r\n", ErrLine, 0},
	{":\r\n", ErrNumber, 0},
	{":-\r\n", ErrNumber, 0},
	{":+\r\n", ErrNumber, 0},
	{":+-1\r\n", ErrNumber, 0},
	{":1 \r\n", ErrNumber, 0},
	{":0x1\r\n", ErrNumber, 0},
	{":1.5\r\n", ErrNumber, 0},
	{":9223372036854775808\r\n", ErrOverflow, 0},
	{":-9223372036854775809\r\n", ErrOverflow, 0},
	{":18446744073709551616\r\n", ErrOverflow, 0},
	{":99999999999999999999999\r\n", ErrOverflow, 0},
	{"$-5\r\n", ErrNegative, 0},
	{"$-0\r\n", ErrNegative, 0},
	{"$-01\r\n", ErrNegative, 0},
	{"$+5\r\nhello\r\n", ErrNumber, 0},
	{"$\r\n", ErrNumber, 0},
	{"$-\r\n", ErrNumber, 0},
	{"$-x\r\n", ErrNumber, 0},
	{"$5 \r\nhello\r\n", ErrNumber, 0},
	{"$9223372036854775807\r\n", ErrTooLarge, 0},
	{"$9223372036854775808\r\n", ErrOverflow, 0},
	{"$99999999999999\r\n", ErrTooLarge, 0},
	{"$1048576\r\n", ErrTooLarge, 0}, // with its head over 1 MiB
	{"$3\r\nabcd\r\n", ErrBulkEnd, 0},
	{"$3\r\nabc\n\r", ErrBulkEnd, 0},
	{"$3\r\nabcd\n", ErrBulkEnd, 0},
	{"$3\r\nabc\rd", ErrBulkEnd, 0},
	{"$3\r\nab\r\n\r\n", ErrBulkEnd, 0},
	{"*-7\r\n", ErrNegative, 0},
	{"*+1\r\n:1\r\n", ErrNumber, 0},
	{"*9223372036854775807\r\n", ErrTooMany, 0},
	{"*4097\r\n", ErrTooMany, 0},
	{"*2\r\n*4095\r\n", ErrTooMany, 4},
	{"*1\r\n$-5\r\n", ErrNegative, 4},
	{"*2\r\n:1\r\n:99999999999999999999999\r\n", ErrOverflow, 8},
	{strings.Repeat("*1\r\n", 9), ErrTooDeep, 32},
	{strings.Repeat("*1\r\n", 10_000), ErrTooDeep, 32},
	{strings.Repeat("*1\r\n", 8) + "*0\r\n", ErrTooDeep, 32},
	{"+" + strings.Repeat("x", 64<<10+1), ErrLineTooLong, 0},
	{":" + strings.Repeat("0", 64<<10+1), ErrLineTooLong, 0},
}
