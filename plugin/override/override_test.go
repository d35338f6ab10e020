package override

import (
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestParse holds what each value is.
func TestParse(t *testing.T) {
	t.Parallel()
	nonsense := Override{Kind: Nonsense}
	times := func(thousandths int64) Override { return Override{Kind: Factor, Factor: thousandths} }
	tier := func(name string) Override { return Override{Kind: Tier, Rest: name} }
	longest := strings.Repeat("a", algo.MaxOverrideBytes-len(TierPrefix))
	for value, want := range map[string]Override{
		"":                 {Kind: None},
		"free":             {Kind: Free},
		"block":            {Kind: Block},
		"x2":               times(2000),
		"x0.5":             times(500),
		"x0.25":            times(250),
		"x0.001":           times(1),
		"x0012.030":        times(12030),
		"x1":               times(1000),
		"x1000.000":        times(1_000_000),
		"x1000.001":        nonsense,
		"x9999":            nonsense,
		"x":                nonsense,
		"x0":               nonsense,
		"x0.000":           nonsense,
		"x1.":              nonsense,
		"x.5":              nonsense,
		"x1.0000":          nonsense,
		"x00001":           nonsense,
		"x-1":              nonsense,
		"x+1":              nonsense,
		"x1e2":             nonsense,
		"x1.-1":            nonsense,
		"x2\n":             nonsense,
		" x2":              nonsense,
		"X2":               nonsense,
		"2":                nonsense,
		"BLOCK":            nonsense,
		"block ":           nonsense,
		"free\x00":         nonsense,
		"\x00\xff":         nonsense,
		"tier:pro":         tier("pro"),
		"tier:a,b=c/%":     tier("a,b=c/%"),
		"tier: ":           tier(" "),
		"tier:":            nonsense,
		"tier":             nonsense,
		"Tier:pro":         nonsense,
		"limits:a=1":       {Kind: Numbers, Rest: "a=1"},
		"limits:rubbish":   {Kind: Numbers, Rest: "rubbish"},
		"limits:":          nonsense,
		"limits":           nonsense,
		"tier:" + longest:  tier(longest),
		"tier:a" + longest: nonsense,
	} {
		testenv.Same(t, value, Parse(value), want)
	}
}

// TestNext holds what a list of numbers is.
func TestNext(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		list string
		want []Number
		bad  bool
	}{
		{list: "a=1", want: []Number{{"a", 1, 0}}},
		{list: "a=0", want: []Number{{"a", 0, 0}}},
		{list: "a=20000/500,b c=007", want: []Number{{"a", 20000, 500}, {"b c", 7, 0}}},
		{list: "a=1000000000/1000000000", want: []Number{{"a", 1e9, 1e9}}},
		{list: "a%2Cb%3dc%2Fd%25=1,b=2", want: []Number{{"a%2Cb%3dc%2Fd%25", 1, 0}, {"b", 2, 0}}},
		{list: "a=1000000001", bad: true},
		{list: "a=99999999999", bad: true},
		{list: "a=1/1000000001", bad: true},
		{list: "a=1/0", bad: true},
		{list: "a=1/", bad: true},
		{list: "a=/1", bad: true},
		{list: "a=", bad: true},
		{list: "a", bad: true},
		{list: "=1", bad: true},
		{list: "a=-1", bad: true},
		{list: "a=+1", bad: true},
		{list: "a=1.5", bad: true},
		{list: "a=1 ", bad: true},
		{list: "a=1/2/3", bad: true},
		{list: "a=1=2", bad: true},
		{list: "a=1,", want: nil, bad: true},
		{list: ",a=1", bad: true},
		{list: "a=1,,b=2", want: []Number{{"a", 1, 0}}, bad: true},
	} {
		var got []Number
		ok := true
		for list := tc.list; list != "" && ok; {
			var n Number
			if n, list, ok = Next(list); ok {
				got = append(got, n)
			}
		}
		testenv.Same(t, tc.list+": that it is none", !ok, tc.bad)
		testenv.SameList(t, tc.list, got, tc.want)
	}
}

// TestNames holds what AppendNumber writes to what Names reads.
func TestNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a", "per-key-1h", "%", "a,b=c/d%25e", "ü", "a b", "%2C"} {
		list := string(AppendNumber(nil, name, "7", "9"))
		n, rest, ok := Next(list)
		testenv.Same(t, list+": that it is one number", ok && rest == "", true)
		testenv.Same(t, list, n, Number{n.Limit, 7, 9})
		testenv.Same(t, list+": that it names "+name, Names(n.Limit, name), true)
		testenv.Same(t, list+": that it names something longer", Names(n.Limit, name+"x"), false)
		testenv.Same(t, list+": that it names something shorter", Names(n.Limit, name[:len(name)-1]), false)
	}
	for _, bad := range []string{"%", "%2", "%zz", "a%", ""} {
		testenv.Same(t, bad+": that it names a", Names(bad, "a"), false)
	}
	testenv.Same(t, "small hex", Names("a%2cb", "a,b"), true)
	testenv.Same(t, "a list", string(AppendNumber(AppendNumber(nil, "a", "1", ""), "b", "2", "3")), "a=1,b=2/3")
}

// FuzzParse: whatever an operator has written, reading it ends.
func FuzzParse(f *testing.F) {
	for _, value := range []string{"", "x1.5", "tier:a", "limits:a=1/2,b=3", "limits:%=1"} {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		o := Parse(value)
		if o.Kind == Factor {
			testenv.Within(t, "a factor", o.Factor, 1, algo.MaxFactor)
		}
		if o.Kind != Numbers {
			return
		}
		for list, ok := o.Rest, true; list != "" && ok; {
			var n Number
			if n, list, ok = Next(list); ok {
				_ = Names(n.Limit, "a,b")
				testenv.Within(t, "units", n.Units, 0, algo.MaxUnits)
				testenv.Within(t, "burst", n.Burst, 0, algo.MaxUnits)
			}
		}
	})
}
