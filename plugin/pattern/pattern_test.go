package pattern

import (
	"regexp"
	"strings"
	"testing"
)

const plenty = 1 << 40

func mustCompile(t testing.TB, expression string) *Pattern {
	t.Helper()
	p, err := Compile(expression)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// expressions use every instruction and assertion of the syntax.
var expressions = []string{
	``, `^`, `$`, `^$`, `a`, `^a`, `a$`, `^a$`, `a|b|cd`, `(a(b)?)*c+?`, `^(a+)+$`, `x{3,7}y{2,}z{0}`, `.*`,
	`^.*$`, `a.c`, `(?s)a.c`,
	`\bword\b`, `\Bor\B`, `\b`, `\B`, `(?m)^a$`, `(?m)a$\n^b`, `\Aa\z`, `(?i)straße`, `(?i)k`, `[^/]+`, `^[^/]*$`,
	`\pL{2}`, `\PL`, `[[:alpha:]]|[0-9]`,
	`(?i)bot|crawl|spider|slurp|curl|wget|python|scrapy`, `^/v[0-9]+/(users|orders|carts)/[^/]+$`,
	`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,63}$`, `a.{12}b`, `(a|b)*a(a|b){9}c`, `é`, `[à-ü]+`,
	`[^\x00-\x7f]`, `\x{fffd}`,
	`(?:)`, `(a{2}){3}`, `\Qa.b\E`, `^a|b`, `(^a|b)c`, `[^\n]b`, `(?i)[k-s]+`, `a\b.`, `^\b`, `\b$`, `$^`, `a$b`, `[a&&b]`,
}

var values = []string{
	"", "a", "b", "c", "cd", "abc", "a\nb", "a\n", "\na", "word", "a word.", "swords", "ab c", "k", "K", "\u212a", "ſ",
	"STRASSE", "straße", "STRAẞE", "é", "É", "ü", "\xff", "a\xffc",
	"\xe9", "a\ufffdc", "/v12/users/x", "/v12/users/x/y", "Mozilla/5.0 (compatible; GoogleBot/2.1)", "a-b.example.com",
	"-a.com", "aaaaaaaaaaaaaaab", "abbabbabbabbc",
	"xxxxyy", "xxyy", "aaaaaa", "a.b", "Ω1", "日本語", " ", "1", "\x00", "a\x00c", "word\xff",
	"\xffword", "_", "a\u00a0b",
	strings.Repeat("a", 300), strings.Repeat("ab", 150) + "c", strings.Repeat("é", 100) + "a",
}

func TestMatchIsThatOfRegexp(t *testing.T) {
	t.Parallel()
	var m Machine
	for _, expression := range expressions {
		want := regexp.MustCompile(expression)
		p := mustCompile(t, expression)
		for _, value := range values {
			check(t, &m, p, want, value)
		}
	}
}

// check holds both engines against package regexp.
func check(t *testing.T, m *Machine, p *Pattern, want *regexp.Regexp, value string) {
	t.Helper()
	found := Is(want.MatchString(value))
	if got, _ := m.Match(p, value, plenty); got != found {
		t.Errorf("%s in %q: %d, want %d", want, value, got, found)
	}
	if got, _ := m.sim.run(p, value, plenty); got != found {
		t.Errorf("%s in %q, simulated: %d, want %d", want, value, got, found)
	}
}

func FuzzMatch(f *testing.F) {
	for i, expression := range expressions {
		f.Add(expression, values[i%len(values)])
	}
	f.Fuzz(func(t *testing.T, expression, value string) {
		if len(expression) > 64 || strings.Count(expression, "{") > 1 {
			return // package config bounds them better
		}
		want, err := regexp.Compile(expression)
		if err != nil {
			return
		}
		var m Machine
		check(t, &m, mustCompile(t, expression), want, value)
	})
}

func TestLiteral(t *testing.T) {
	t.Parallel()
	var m Machine
	for _, text := range []string{"", "a", "aa", "a.b", "aab", "é", "(", strings.Repeat("ab", 2000)} {
		p := Literal(text)
		for _, value := range append(values, "x"+text, text+"x", "aa"+text) {
			if got, _ := m.Match(p, value, plenty); got != Is(strings.Contains(value, text)) {
				t.Errorf("%.20q in %.20q: %d", text, value, got)
			}
		}
	}
}

func TestUnits(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 10_000)
	for _, tt := range []struct {
		name       string
		expression string
		value      string
		units      int
		want       Result
		left       int
	}{
		{name: "a unit a byte", expression: "b", value: "aaaa", units: 10, want: No, left: 6},
		{name: "up to the byte after what is found", expression: "b", value: "aab" + long, units: 10, want: Yes, left: 6},
		{name: "all of them", expression: "b", value: "aaaa", units: 4, want: No, left: 0},
		{name: "too few", expression: "b", value: "aaaa", units: 3, want: Unknown, left: 0},
		{name: "too few for what it would hold", expression: "b", value: long + "b", units: 1000, want: Unknown, left: 0},
		{name: "the end is not looked at", expression: "^ab", value: long, units: 10, want: No, left: 8},
		{name: "none", expression: "b", value: "aaaa", units: 0, want: Unknown, left: 0},
		{name: "none, and nothing to do", expression: "b", value: "", units: 0, want: No, left: 0},
		{name: "simulated", expression: "a.{12}b", value: long, units: 1000, want: Unknown, left: 0},
		{name: "beyond ASCII", expression: "b", value: long + "é", units: 10_500, want: Unknown, left: 0},
		{name: "beyond ASCII, known", expression: "b", value: "é", units: 100, want: No, left: 80},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var m Machine
			got, left := m.Match(mustCompile(t, tt.expression), tt.value, tt.units)
			if got != tt.want {
				t.Errorf("result is %d, want %d", got, tt.want)
			}
			if left != tt.left {
				t.Errorf("%d units are left, want %d", left, tt.left)
			}
		})
	}
}

// What people write has an automaton, which takes a step for each byte.
func TestAutomaton(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		expression string
		want       bool
	}{
		{`(?i)bot|crawl|spider|slurp|curl|wget|python|scrapy`, true},
		{`^/v[0-9]+/(users|orders|carts)/[^/]+$`, true},
		{`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,63}$`, true},
		{`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`, true},
		{`(?i)^(curl|wget|python-requests|go-http-client|java|okhttp)/`, true},
		{`\.(png|jpe?g|gif|css|js|woff2?)$`, true},
		{`a.{12}b`, false},
		{`[a-z]{900}`, false},
	} {
		if got := mustCompile(t, tt.expression).auto.table != nil; got != tt.want {
			t.Errorf("%s has an automaton: %v, want %v", tt.expression, got, tt.want)
		}
	}
}

// Not parallel, as it counts allocations.
func TestMatchAllocatesNothing(t *testing.T) {
	var m Machine
	list := []*Pattern{mustCompile(t, `a.{12}b`), mustCompile(t, `b`)}
	value := strings.Repeat("a", 1000) + "é"
	allocs := testing.AllocsPerRun(100, func() {
		for _, p := range list {
			m.Match(p, value, plenty)
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations for a match, want none", allocs)
	}
}
