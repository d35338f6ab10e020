package rule

import (
	"slices"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/config"
)

func TestCost(t *testing.T) {
	t.Parallel()
	r := counted("r")
	r.Cost = config.Amount{Header: "x-cost", Default: 3, Max: 100}
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
	same, _ := set.Apply(get("/", "x-cost", "5", "x-cost", " 5"), &m)
	testenv.Same(t, "the cost of 5 and 5", same[0].Cost, 5)
}

func TestConstantCost(t *testing.T) {
	t.Parallel()
	r := counted("r")
	r.Cost = config.Amount{Default: 5, Max: 100}
	req := get("/")
	var m Matcher
	if applied, _ := compile(t, r).Apply(req, &m); applied[0].Cost != 5 {
		t.Errorf("cost is %d, want 5", applied[0].Cost)
	}
}

// sizesAndCosts are the sizes and the costs of the limits of the one rule that applies.
func sizesAndCosts(t *testing.T, r config.Rule, req Request) (sizes []algo.Size, costs []int64) {
	t.Helper()
	var m Matcher
	applied, _ := compile(t, r).Apply(req, &m)
	if len(applied) != 1 {
		t.Fatalf("%d rules apply, want 1", len(applied))
	}
	return applied[0].Sizes, applied[0].Costs
}

func TestSizesThatComeWithTheRequest(t *testing.T) {
	t.Parallel()
	claim := &config.Amount{Metadata: []string{"jwt", "limit"}, Default: 10, Max: 1000}
	header := &config.Amount{Header: "x-limit", Default: 10, Max: 1000}
	seven := get("/", "x-limit", "7")
	const text = "double('jwt' in metadata.filter_metadata ? metadata.filter_metadata['jwt']['limit']" +
		" : metadata.typed_filter_metadata['jwt'].limit\n)"
	for _, tt := range []struct {
		name         string
		units, burst *config.Amount
		constant     algo.Size
		req          *request
		want         []algo.Size
	}{
		{name: "none", constant: algo.Size{Units: 5}, req: get("/")},
		{name: "a header", units: header, req: seven, want: []algo.Size{{Units: 7}}},
		{name: "a header above max", units: header, req: get("/", "x-limit", "5000"), want: []algo.Size{{Units: 1000}}},
		{
			name: "a header that is not a number", units: header, req: get("/", "x-limit", "many"),
			want: []algo.Size{{Units: 10}},
		},
		{name: "a header that is absent", units: header, req: get("/"), want: []algo.Size{{Units: 10}}},
		{name: "a header of 0", units: header, req: get("/", "x-limit", "0"), want: []algo.Size{{}}},
		{
			name: "a header too long to be looked at", units: header, req: get("/", "x-limit", overlong),
			want: []algo.Size{{Units: 10}},
		},
		{name: "a claim", units: claim, req: valued(map[string]string{text: double(70)}), want: []algo.Size{{Units: 70}}},
		{name: "a claim that is absent", units: claim, req: get("/"), want: []algo.Size{{Units: 10}}},
		{
			name: "a constant burst", units: header, constant: algo.Size{Burst: 20}, req: seven,
			want: []algo.Size{{Units: 7, Burst: 20}},
		},
		{name: "a burst", burst: header, constant: algo.Size{Units: 5}, req: seven, want: []algo.Size{{Units: 5, Burst: 7}}},
		{
			name: "a burst of 0", burst: header, constant: algo.Size{Units: 5}, req: get("/", "x-limit", "0"),
			want: []algo.Size{{}},
		},
		{name: "both", units: claim, burst: header, req: seven, want: []algo.Size{{Units: 10, Burst: 7}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := counted("r")
			l := &r.Limits[0]
			l.UnitsFrom, l.BurstFrom = tt.units, tt.burst
			l.Units, l.Burst = max(tt.constant.Units, 1), tt.constant.Burst
			if tt.constant.Units == 0 && tt.units != nil {
				l.Units = tt.units.Max
			}
			sizes, _ := sizesAndCosts(t, r, tt.req)
			if !slices.Equal(sizes, tt.want) {
				t.Errorf("sizes are %v, want %v", sizes, tt.want)
			}
		})
	}
}

func TestCostsOfLimits(t *testing.T) {
	t.Parallel()
	r := counted("r")
	r.Cost = config.Amount{Header: "x-cost", Default: 2, Max: 100}
	r.Limits = append(perSecond(10), perSecond(20)...)
	r.Limits = append(r.Limits, perSecond(30)...)
	for i := range r.Limits {
		r.Limits[i].WindowMicros *= int64(i + 1)
	}
	r.Limits[1].Cost = &config.Amount{Default: 1, Max: 100}
	r.Limits[2].Cost = &config.Amount{Header: "x-own", Default: 5, Max: 50}
	for _, tt := range []struct {
		name    string
		headers []string
		want    []int64
	}{
		{name: "defaults", want: []int64{2, 1, 5}},
		{name: "the rule's", headers: []string{"x-cost", "7"}, want: []int64{7, 1, 5}},
		{name: "its own", headers: []string{"x-own", "7"}, want: []int64{2, 1, 7}},
		{name: "too long to be looked at", headers: []string{"x-own", overlong}, want: []int64{2, 1, 50}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if _, costs := sizesAndCosts(t, r, get("/", tt.headers...)); !slices.Equal(costs, tt.want) {
				t.Errorf("costs are %v, want %v", costs, tt.want)
			}
		})
	}
}

// What one rule brings stays as it is while the next is read.
func TestCostsOfSeveralRules(t *testing.T) {
	t.Parallel()
	var rules []config.Rule
	for _, name := range []string{"a", "b", "c"} {
		r := counted(name)
		r.Cost = config.Amount{Header: "x-" + name, Default: 1, Max: 100}
		r.Limits[0].UnitsFrom = &config.Amount{Header: "x-" + name, Default: 1, Max: 10}
		rules = append(rules, r)
	}
	var m Matcher
	applied, _ := compile(t, rules...).Apply(get("/", "x-a", "3", "x-b", "4", "x-c", "5"), &m)
	for i, want := range []int64{3, 4, 5} {
		if got := applied[i].Costs[0]; got != want {
			t.Errorf("cost of rule %d is %d, want %d", i, got, want)
		}
		if got := applied[i].Sizes[0].Units; got != want {
			t.Errorf("limit of rule %d is %d, want %d", i, got, want)
		}
	}
}
