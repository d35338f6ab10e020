package algo

import (
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

func TestShorterWait(t *testing.T) {
	for _, tc := range []struct{ a, b, want int64 }{
		{3, 5, 3},
		{5, 3, 3},
		{Never, 5, 5},
		{5, Never, 5},
		{Never, Never, Never},
	} {
		testenv.Same(t, "the shorter wait", ShorterWait(tc.a, tc.b), tc.want)
	}
}

func TestLongestWait(t *testing.T) {
	allowed, short, long := Decision{Allowed: true}, Decision{RetryAfterMicros: 3}, Decision{RetryAfterMicros: 5}
	never := Decision{RetryAfterMicros: Never}
	for _, tc := range []struct {
		name      string
		decisions []Decision
		want      int64
	}{
		{"no limit", nil, 0},
		{"none rejects", []Decision{allowed, allowed}, 0},
		{"one rejects", []Decision{allowed, short}, 3},
		{"the longer one counts", []Decision{long, short}, 5},
		{"no wait helps", []Decision{never, long}, Never},
		{"no wait helps, said last", []Decision{long, never}, Never},
	} {
		testenv.Same(t, tc.name, LongestWait(tc.decisions), tc.want)
	}
}
