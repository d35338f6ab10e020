package rule

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

const levels = `"key": [{"header": "x-org"}], "limits": [
	{"name": "org", "algorithm": "gcra", "limit": 9, "window": "1s"},
	{"name": "team|{a}", "algorithm": "gcra", "limit": 9, "window": "1s", "per": [{"header": "x-team"}]},
	{"name": "user", "algorithm": "concurrency", "limit": 9, "per": [{"header": "x-team"}, {"header": "x-user"}]}]`

// TestValues holds whom limits with "per" count, for values that look like parts of keys, too.
func TestValues(t *testing.T) {
	t.Parallel()
	set := compile(t, levels)
	long := strings.Repeat("x", 60_000)
	for _, c := range []struct {
		headers []string
		want    []string // of team and user; "" does not apply
		costs   string
	}{
		{[]string{"x-team", "a", "x-user", "b"}, []string{"a", "a|b"}, "[1 1 1]"},
		{[]string{"x-team", "a"}, []string{"a", ""}, "[1 1 0]"},
		{[]string{"x-user", "b"}, []string{"", ""}, "[1 0 0]"},
		{[]string{"x-team", "", "x-user", ""}, []string{"%", "|"}, "[1 1 1]"},
		{[]string{"x-team", "a|b", "x-user", "}:per:c"}, []string{"a%7Cb", "a%7Cb|%7D:per:c"}, "[1 1 1]"},
		{[]string{"x-team", "a\x00b", "x-user", "%"}, []string{"a%00b", "a%00b|%25"}, "[1 1 1]"},
		{[]string{"x-team", long, "x-user", "b"}, []string{"%long", "%long"}, "[1 1 1]"},
	} {
		var m Matcher
		applied, _, _ := set.Apply(get("/", append([]string{"x-org", "o"}, c.headers...)...), &m)
		a := applied[0]
		testenv.Same(t, fmt.Sprintf("%.60q: costs", c.headers), fmt.Sprint(a.Costs), c.costs)
		for i, want := range c.want {
			values, applies := a.Limits.ValuesOf(a.Values, i+1)
			testenv.Same(t, fmt.Sprintf("%.60q: values", c.headers), string(values), want)
			testenv.Same(t, fmt.Sprintf("%.60q: applies", c.headers), applies, want != "")
		}
	}
}

// TestLongValues: values of more than 200 bytes are their digest, so that a length is one byte.
func TestLongValues(t *testing.T) {
	t.Parallel()
	set := compile(t, levels)
	var m Matcher
	for _, n := range []int{199, 200, 201, 255, 256, 1000} {
		applied, _, _ := set.Apply(get("/", "x-org", "o", "x-team", strings.Repeat("x", n)), &m)
		values, _ := applied[0].Limits.ValuesOf(applied[0].Values, 1)
		want := n
		if n > maxIdentityBytes {
			want = digestDigits
		}
		testenv.Same(t, fmt.Sprint("the length of ", n, " bytes"), len(values), want)
	}
}

// TestParts: a part's name leads back to the tag, and no two parts have one name.
func TestParts(t *testing.T) {
	t.Parallel()
	set := compile(t, levels)
	names := map[string]bool{}
	var m Matcher
	for _, user := range []string{"a", "b", "a|b", ""} {
		applied, _, _ := set.Apply(get("/", "x-org", "o", "x-team", "t", "x-user", user), &m)
		a := applied[0]
		for i := range a.Limits.Parts {
			part, applies := a.Name(&a.Limits.Parts[i], new([]byte))
			if !applies {
				continue
			}
			tag, id := CutPart(part)
			testenv.Same(t, "the tag of a part", string(tag), "r|o")
			testenv.Same(t, "whether a part has an id", len(id) > 0, i > 0)
			names[string(part)] = true
		}
	}
	testenv.Same(t, "names of parts", len(names), 1+1+4)
	testenv.Same(t, "a key's suffix", set.LimitSets[0].KeySuffixes[1], ":gcra:1s:per:team%7C%7Ba%7D|")
}

// TestNoLevelIsLeft: a rule of whose own limits none applies does not apply, whoever could pay.
func TestNoLevelIsLeft(t *testing.T) {
	t.Parallel()
	for _, over := range []string{"", `, "over": {"limits": [{"algorithm": "gcra", "limit": 9, "window": "1s"}]}`} {
		set := compile(t, `"limits": [
			{"name": "team", "algorithm": "gcra", "limit": 9, "window": "1s", "per": [{"header": "x-team"}]}]`+over)
		var m Matcher
		applied, _, _ := set.Apply(get("/"), &m)
		testenv.Same(t, "rules that apply without a team", len(applied), 0)
		applied, _, _ = set.Apply(get("/", "x-team", "a"), &m)
		testenv.Same(t, "rules that apply with one", len(applied), 1)
	}
}

// TestClasses holds which part of the capacity is there for a request.
func TestClasses(t *testing.T) {
	t.Parallel()
	set := compile(t, `"limits": [{"algorithm": "gcra", "limit": 100, "window": "1s",
		"ceiling": {"source": {"query": "class"}, "values": {"critical": 100, "normal": 80, "bulk": 5}, "default": "normal"}}
		]`)
	for _, c := range []struct {
		target string
		want   int64
	}{
		{"/?class=critical", 100},
		{"/?class=normal", 80},
		{"/?class=bulk", 5},
		{"/?class=other", 80},
		{"/", 80},
		{"/?class=", 80},
		{"/?class=CRITICAL", 80},
		{"/?a=" + strings.Repeat("x", 60_000) + "&class=critical", 5},
	} {
		var m Matcher
		applied, _, _ := set.Apply(get(c.target), &m)
		testenv.Same(t, fmt.Sprintf("percent for %.30s", c.target), applied[0].Sizes[0].Ceiling, c.want)
	}
}
