package message

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"
)

// What the messages need comes out as fmt has it.
func TestSprintf(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		format string
		args   []any
	}{
		{"", nil},
		{"no verb", nil},
		{"10%% of %d%%", []any{7}},
		{"%s and %v", []any{"a", "b"}},
		{"%q, %q", []any{"a \"b\"\n\xff", []byte("::1")}},
		{"%q %q", []any{'x', '\u2028'}},
		{"%s %v", []any{errors.New("broken"), time.Monday}},
		{"%q", []any{time.March}},
		{"%d %d %d %d", []any{1, int64(math.MaxInt64), int32(-5), byte(255)}},
		{"%d", []any{int64(math.MinInt64)}},
		{":%02d-%02d", []any{3, 17}},
		{"%04d %04d", []any{-12, 123456}},
		{"0x%02x %08x %x", []any{byte(10), 0xabc, 255}},
	} {
		if got, want := Sprintf(test.format, test.args...), fmt.Sprintf(test.format, test.args...); got != want {
			t.Errorf("%q: %q, want %q", test.format, got, want)
		}
	}
}

// A format that asks for what is not there, or for what Sprintf does not know, says so.
func TestSprintfOfAMistake(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		format string
		args   []any
		want   string
	}{
		{format: "%s and %s", args: []any{"a"}, want: "a and %!s(MISSING)"},
		{format: "%v", args: []any{1.5}, want: "%!v(UNKNOWN)"},
		{format: "%v", args: []any{nil}, want: "%!v(UNKNOWN)"},
		{format: "100%", want: "100%!!(MISSING)"},
	} {
		if got := Sprintf(test.format, test.args...); got != test.want {
			t.Errorf("%q: %q, want %q", test.format, got, test.want)
		}
	}
}

func FuzzSprintf(f *testing.F) {
	f.Add("a\x00\"", int64(-7), 'x')
	f.Fuzz(func(t *testing.T, s string, n int64, r rune) {
		const format = "%s %q %v %d %04d %x %q %%"
		got := Sprintf(format, s, s, s, n, n, n, r)
		if want := fmt.Sprintf(format, s, s, s, n, n, n, r); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	})
}
