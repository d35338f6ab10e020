package config

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	t.Parallel()
	fields := []string{"algorithm", "limit", "window", "name", "burst", "sub_windows", "max_delay"}
	tests := []struct{ unknown, want string }{
		{"limt", "limit"},
		{"limits", "limit"},
		{"Limit", "limit"},
		{"wnidow", "window"},
		{"windows", "window"},
		{"subWindows", "sub_windows"},
		{"sub-windows", "sub_windows"},
		{"max-delay", "max_delay"},
		{"algo", "algorithm"},
		{"nmae", "name"},
		{"period", ""},
		{"x", ""},
		{"", ""},
		{strings.Repeat("limit", 1000), ""},
	}
	for _, tt := range tests {
		if got, found := nearest(tt.unknown, fields); got != tt.want || found != (tt.want != "") {
			t.Errorf("nearest(%.20q) = %q, want %q", tt.unknown, got, tt.want)
		}
	}
}

func TestEditDistance(t *testing.T) {
	t.Parallel()
	tests := []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"", "abc", 3},
		{"abc", "", 3},
		{"abc", "abc", 0},
		{"abc", "abd", 1},
		{"abc", "ab", 1},
		{"abc", "acb", 1},
		{"kitten", "sitting", 3},
		{"window", "wnidwo", 2},
	}
	for _, tt := range tests {
		if got := editDistance(tt.a, tt.b); got != tt.want {
			t.Errorf("editDistance(%q, %q) = %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}
