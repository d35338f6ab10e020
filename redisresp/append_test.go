package redisresp

import (
	"math"
	"strconv"
	"testing"
)

func TestAppendCommand(t *testing.T) {
	t.Parallel()
	b := AppendArray([]byte("before "), 4)
	b = AppendBulkString(b, "SET")
	b = AppendBulk(b, []byte("a\r\n\x00b"))
	b = AppendBulkInt(b, -42)
	b = AppendBulk(b, nil)
	want := "before *4\r\n$3\r\nSET\r\n$5\r\na\r\n\x00b\r\n$3\r\n-42\r\n$0\r\n\r\n"
	if string(b) != want {
		t.Errorf("got  %q\nwant %q", b, want)
	}
}

func TestAppendBulkInt(t *testing.T) {
	t.Parallel()
	numbers := []int64{0, 1, 9, 10, 99, 100, 101, -1, -9, -10, math.MaxInt64, math.MinInt64, 1_700_000_000_000_000}
	for power := int64(1e18); power > 0; power /= 10 { // around each number of digits
		numbers = append(numbers, power-1, power, power+1, -power)
	}
	for _, n := range []int64{math.MaxUint32, 1e9, 1e18} { // and where it is written in pieces
		numbers = append(numbers, n-1, n, n+1, 4*n, 4*n+7)
	}
	for _, n := range numbers {
		digits := strconv.FormatInt(n, 10)
		want := "$" + strconv.Itoa(len(digits)) + "\r\n" + digits + "\r\n"
		if got := string(AppendBulkInt(nil, n)); got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
}

// A command of the size the limiter sends fits the buffer of the one before it.
func TestAppendAllocatesNothing(t *testing.T) {
	buf := make([]byte, 0, 512)
	key := []byte("rl:{per-user|alice}:gcra:1s")
	allocs := testing.AllocsPerRun(100, func() {
		buf = AppendArray(buf[:0], 7)
		buf = AppendBulkString(buf, "EVALSHA")
		buf = AppendBulkString(buf, "0123456789abcdef0123456789abcdef01234567")
		buf = AppendBulkInt(buf, 1)
		buf = AppendBulk(buf, key)
		buf = AppendBulkInt(buf, 20)
		buf = AppendBulkInt(buf, 1_000_000)
		buf = AppendBulkInt(buf, 1)
	})
	if allocs != 0 {
		t.Errorf("%v allocations, want none", allocs)
	}
}
