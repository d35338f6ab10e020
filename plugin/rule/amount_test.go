package rule

import (
	"fmt"
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
		testenv.Same(t, fmt.Sprintf("cost of %.30q", tt.header), only(t, r, get("/", "x-cost", tt.header)).Cost, tt.want)
	}
	testenv.Same(t, "cost without a header", only(t, r, get("/")).Cost, 3)
	testenv.Same(t, "cost of 5 and 5", only(t, r, get("/", "x-cost", "5", "x-cost", " 5")).Cost, 5)
	testenv.Same(t, "cost that is too long", only(t, r, get("/", "x-cost", strings.Repeat("0", requestUnits+1))).Cost, 100)
	r.Cost = config.Amount{Default: 5, Max: 100}
	testenv.Same(t, "constant cost", only(t, r, get("/")).Cost, 5)
}

func TestSizesThatComeWithTheRequest(t *testing.T) {
	t.Parallel()
	claim := &config.Amount{Metadata: []string{"jwt", "limit"}, Default: 10, Max: 1000}
	header := &config.Amount{Header: "x-limit", Default: 10, Max: 1000}
	with := func(limit string) *request { return get("/", "x-limit", limit) }
	const text = "double('jwt' in metadata.filter_metadata ? metadata.filter_metadata['jwt']['limit']" +
		" : metadata.typed_filter_metadata['jwt'].limit\n)"
	for _, tt := range []struct {
		name         string
		units, burst *config.Amount
		configured   algo.Size
		req          *request
		want         []algo.Size
	}{
		{"none", nil, nil, algo.Size{Units: 5}, get("/"), nil},
		{"a header", header, nil, algo.Size{}, with("7"), []algo.Size{{Units: 7}}},
		{"a header above max", header, nil, algo.Size{}, with("5000"), []algo.Size{{Units: 1000}}},
		{"a header that is not a number", header, nil, algo.Size{}, with("many"), []algo.Size{{Units: 10}}},
		{"a header that is absent", header, nil, algo.Size{}, get("/"), []algo.Size{{Units: 10}}},
		{"a header of 0", header, nil, algo.Size{}, with("0"), []algo.Size{{}}},
		{"a header too long to be looked at", header, nil, algo.Size{}, with(overlong), []algo.Size{{Units: 10}}},
		{"a claim", claim, nil, algo.Size{}, valued(map[string]string{text: double(70)}), []algo.Size{{Units: 70}}},
		{"a claim that is absent", claim, nil, algo.Size{}, get("/"), []algo.Size{{Units: 10}}},
		{"a constant burst", header, nil, algo.Size{Burst: 20}, with("7"), []algo.Size{{Units: 7, Burst: 20}}},
		{"a burst", nil, header, algo.Size{Units: 5}, with("7"), []algo.Size{{Units: 5, Burst: 7}}},
		{"a burst of 0", nil, header, algo.Size{Units: 5}, with("0"), []algo.Size{{}}},
		{"both", claim, header, algo.Size{}, with("7"), []algo.Size{{Units: 10, Burst: 7}}},
	} {
		r := counted("r")
		l := &r.Limits[0]
		l.UnitsFrom, l.BurstFrom = tt.units, tt.burst
		l.Units, l.Burst = max(tt.configured.Units, 1), tt.configured.Burst
		if tt.configured.Units == 0 {
			l.Units = tt.units.Max
		}
		testenv.SameList(t, tt.name, only(t, r, tt.req).Sizes, tt.want)
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
		testenv.SameList(t, tt.name, only(t, r, get("/", tt.headers...)).Costs, tt.want)
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
	applied, _, _ := compile(t, rules...).Apply(get("/", "x-a", "3", "x-b", "4", "x-c", "5"), &m)
	for i, want := range []int64{3, 4, 5} {
		testenv.Same(t, fmt.Sprint("cost of rule ", i), applied[i].Costs[0], want)
		testenv.Same(t, fmt.Sprint("limit of rule ", i), applied[i].Sizes[0].Units, want)
	}
}
