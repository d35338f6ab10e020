package text

import (
	"strconv"
	"strings"
	"testing"
)

func TestUnescape(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text string
		want byte
		ok   bool
	}{
		{text: "%41", want: 'A', ok: true},
		{text: "%7e", want: '~', ok: true},
		{text: "%7E.", want: '~', ok: true},
		{text: "%fF", want: 0xff, ok: true},
		{text: "%00", want: 0, ok: true},
		{text: "%4"},
		{text: "%"},
		{text: "%zz"},
		{text: "%4g"},
		{text: "%g4"},
		{text: "41%"},
	} {
		t.Run(tt.text, func(t *testing.T) {
			t.Parallel()
			got, ok := Unescape(tt.text, 0)
			if ok != tt.ok {
				t.Fatalf("is an escape: %v, want %v", ok, tt.ok)
			}
			if ok && got != tt.want {
				t.Errorf("stands for %#x, want %#x", got, tt.want)
			}
		})
	}
}

func TestEveryByte(t *testing.T) {
	t.Parallel()
	const unreserved = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
	for i := range 256 {
		c := byte(i)
		if got, ok := Unescape(View(AppendEscape(nil, c)), 0); got != c || !ok {
			t.Errorf("the escape of %#x is read as %#x, %v", c, got, ok)
		}
		if got, want := IsUnreserved(c), strings.IndexByte(unreserved, c) >= 0; got != want {
			t.Errorf("%#x is unreserved: %v, want %v", c, got, want)
		}
		want, err := strconv.ParseUint(string(rune(c)), 16, 8)
		if err != nil {
			want = 255
		}
		if got := HexValue(c); uint64(got) != want {
			t.Errorf("the digit %#x is %d, want %d", c, got, want)
		}
	}
}
