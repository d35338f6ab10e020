package rule

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

func TestCost(t *testing.T) {
	t.Parallel()
	const r = `"cost": {"header": "x-cost", "default": 3, "max": 100}`
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
	testenv.Same(t, "constant cost", only(t, `"cost": 5`, get("/")).Cost, 5)
}

func TestSizesThatComeWithTheRequest(t *testing.T) {
	t.Parallel()
	const header, claim = `{"header": "x-limit", "default": 10, "max": 1000}`,
		`{"metadata": ["jwt", "limit"], "default": 10, "max": 1000}`
	const text = "double('jwt' in metadata.filter_metadata ? metadata.filter_metadata['jwt']['limit']" +
		" : metadata.typed_filter_metadata['jwt'].limit\n)"
	with := func(limit string) *request { return get("/", "x-limit", limit) }
	for _, tt := range []struct {
		name  string
		sizes string
		req   *request
		want  []algo.Size
	}{
		{"none", `"limit": 5`, get("/"), nil},
		{"a header", `"limit": ` + header, with("7"), []algo.Size{{Units: 7}}},
		{"a header above max", `"limit": ` + header, with("5000"), []algo.Size{{Units: 1000}}},
		{"a header that is not a number", `"limit": ` + header, with("many"), []algo.Size{{Units: 10}}},
		{"a header that is absent", `"limit": ` + header, get("/"), []algo.Size{{Units: 10}}},
		{"a header of 0", `"limit": ` + header, with("0"), []algo.Size{{}}},
		{"a header too long to be looked at", `"limit": ` + header, with(overlong), []algo.Size{{Units: 10}}},
		{"a claim", `"limit": ` + claim, get("/", text, testenv.Doubles(70)), []algo.Size{{Units: 70}}},
		{"a claim that is absent", `"limit": ` + claim, get("/"), []algo.Size{{Units: 10}}},
		{"a constant burst", `"burst": 20, "limit": ` + header, with("7"), []algo.Size{{Units: 7, Burst: 20}}},
		{"a burst", `"limit": 5, "burst": ` + header, with("7"), []algo.Size{{Units: 5, Burst: 7}}},
		{"a burst of 0", `"limit": 5, "burst": ` + header, with("0"), []algo.Size{{}}},
		{"both", `"limit": ` + claim + `, "burst": ` + header, with("7"), []algo.Size{{Units: 10, Burst: 7}}},
	} {
		rule := `"limits": [{"algorithm": "gcra", "window": "1s", ` + tt.sizes + `}]`
		testenv.SameList(t, tt.name, only(t, rule, tt.req).Sizes, tt.want)
	}
}

func TestCostsOfLimits(t *testing.T) {
	t.Parallel()
	const r = `"cost": {"header": "x-cost", "default": 2, "max": 100}, "limits": [
		{"algorithm": "gcra", "limit": 10, "window": "1s"},
		{"algorithm": "gcra", "limit": 20, "window": "2s", "cost": 1},
		{"algorithm": "gcra", "limit": 50, "window": "3s", "cost": {"header": "x-own", "default": 5, "max": 50}}]`
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
	var rules []string
	for _, name := range []string{"a", "b", "c"} {
		rules = append(rules, fmt.Sprintf(`"name": %q, "cost": {"header": "x-%[1]s", "default": 1, "max": 10}, "limits": [
			{"algorithm": "gcra", "window": "1s", "limit": {"header": "x-%[1]s", "default": 1, "max": 10}}]`, name))
	}
	var m Matcher
	applied, _, _ := compile(t, rules...).Apply(get("/", "x-a", "3", "x-b", "4", "x-c", "5"), &m)
	for i, want := range []int64{3, 4, 5} {
		testenv.Same(t, fmt.Sprint("cost of rule ", i), applied[i].Costs[0], want)
		testenv.Same(t, fmt.Sprint("limit of rule ", i), applied[i].Sizes[0].Units, want)
	}
}
