package redisresp

import (
	"fmt"
	"strconv"
	"strings"
)

// show writes a reply down: +"OK", -"ERR", 7, "bulk", null, [1 2].
func show(r Reply) string {
	text := strconv.Quote(string(r.Bytes))
	switch r.Kind {
	case SimpleString:
		return "+" + text
	case Error:
		return "-" + text
	case Integer:
		return fmt.Sprint(r.Int)
	case Bulk:
		return text
	case Array:
		var elements []string
		for it := r.Iter(); it.Next(); {
			elements = append(elements, show(it.Reply()))
		}
		return fmt.Sprint(elements)
	}
	return "null"
}

// wellFormed has bytes, and the reply that they decode to, as show writes it.
var wellFormed = []struct{ in, want string }{
	{"+OK\r\n", `+"OK"`},
	{"+\r\n", `+""`},
	{"-ERR unknown command\r\n", `-"ERR unknown command"`},
	{":0\r\n", "0"},
	{":1000\r\n", "1000"},
	{":+7\r\n", "7"},
	{":-7\r\n", "-7"},
	{":-0\r\n", "0"},
	{":007\r\n", "7"},
	{":00000000000000000000000000007\r\n", "7"},
	{":999999999999999999\r\n", "999999999999999999"},
	{":-999999999999999999\r\n", "-999999999999999999"},
	{":1000000000000000000\r\n", "1000000000000000000"},
	{":9223372036854775807\r\n", "9223372036854775807"},
	{":-9223372036854775808\r\n", "-9223372036854775808"},
	{"$5\r\nhello\r\n", `"hello"`},
	{"$05\r\nhello\r\n", `"hello"`},
	{"$0\r\n\r\n", `""`},
	{"$4\r\n\r\n\r\n\r\n", `"\r\n\r\n"`},
	{"$-1\r\n", "null"},
	{"*-1\r\n", "null"},
	{"*0\r\n", "[]"},
	{"*3\r\n:1\r\n:2\r\n:-3\r\n", "[1 2 -3]"},
	{"*2\r\n*2\r\n:1\r\n:2\r\n$1\r\nx\r\n", `[[1 2] "x"]`},
	{"*3\r\n*0\r\n*-1\r\n-NO\r\n", `[[] null -"NO"]`},
	{strings.Repeat("*1\r\n", 8) + ":5\r\n", "[[[[[[[[5]]]]]]]]"},
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
