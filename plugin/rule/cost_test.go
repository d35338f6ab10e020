package rule

import (
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/plugin/config"
)

func TestCost(t *testing.T) {
	t.Parallel()
	r := counted("r")
	r.Cost = config.Cost{Header: "x-cost", Default: 3, Max: 100}
	set := compile(t, r)
	for _, tt := range []struct {
		header string
		want   int64
	}{
		{"0", 0},
		{"1", 1},
		{" 7\t", 7},
		{"007", 7},
		{strings.Repeat("0", 10_000) + "42", 42},
		{"100", 100},
		{"101", 100},
		{"18446744073709551617", 100},
		{strings.Repeat("9", 10_000), 100},
		{"", 3},
		{"-1", 3},
		{"+1", 3},
		{"1.5", 3},
		{"1e3", 3},
		{"0x10", 3},
		{"1 2", 3},
		{"1, 2", 3},
		{"99999999999999999999x", 3},
		{"\xd9\xa1", 3}, // an Arabic digit
		{"1\x00", 3},
	} {
		var m Matcher
		applied, _ := set.Apply(get("/", "x-cost", tt.header), &m)
		if applied[0].Cost != tt.want {
			t.Errorf("cost of %.30q is %d, want %d", tt.header, applied[0].Cost, tt.want)
		}
	}
	var m Matcher
	if applied, _ := set.Apply(get("/"), &m); applied[0].Cost != 3 {
		t.Errorf("cost without a header is %d, want 3", applied[0].Cost)
	}
	first, _ := set.Apply(get("/", "x-cost", "5", "x-cost", "0"), &m)
	if first[0].Cost != 5 {
		t.Errorf("cost of 5 and 0 is %d, want that of the first header", first[0].Cost)
	}
}

func TestConstantCost(t *testing.T) {
	t.Parallel()
	r := counted("r")
	r.Cost = config.Cost{Default: 5, Max: 100}
	req := get("/")
	var m Matcher
	if applied, _ := compile(t, r).Apply(req, &m); applied[0].Cost != 5 {
		t.Errorf("cost is %d, want 5", applied[0].Cost)
	}
}
