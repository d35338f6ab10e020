package envoycel

import (
	"slices"
	"strings"
	"testing"
)

// computed is a pattern that is not a literal.
const computed = "\x00computed"

func patternsOf(cel string) (all []string) {
	for _, p := range Patterns(cel) {
		if !p.IsLiteral {
			p.Text = computed
		}
		all = append(all, p.Text)
	}
	return all
}

func TestPatterns(t *testing.T) {
	t.Parallel()
	for cel, want := range map[string]string{
		`x.matches('a')`:                                    "a",
		`x.matches("a'b")`:                                  "a'b",
		`x.matches('''a'b''')`:                              "a'b",
		"x.matches(\"\"\"a\n\"b\"\"\")":                     "a\n\"b",
		`x.matches(r'\d\')`:                                 `\d\`,
		`x.matches(R"""\d"\""")`:                            `\d"\`,
		`x.matches('\\d\x41\101\u0041\U00000041\n\'\"\?')`:  "\\dAAAA\n'\"?",
		`x . matches ( 'a' )`:                               "a",
		"x.matches // ('c')\n(\t'a' // 'd'\n)":              "a",
		`matches(x, 'a')`:                                   "a",
		`matches(f(x, ['c', "d"], {'e': 1}), 'a')`:          "a",
		`.matches(x, 'a')`:                                  "a",
		`(.matches(x, 'a'))`:                                "a",
		`f(x)[1].matches('a') && {'k': 'v'}.k.matches('b')`: "a|b",
		`'t'.matches('a') || [x][0].matches('b')`:           "a|b",
		`x.matches('a').matches(r'b')`:                      "a|b",
		`x.matches(y.matches('a') ? 'b' : 'c')`:             computed + "|a",
		`x.matches(y)`:                                      computed,
		`x.matches('a' + 'b')`:                              computed,
		`x.matches(('a'))`:                                  "a",
		`x.matches(cond ? 'a' : 'b')`:                       computed,
		`matches(x, y)`:                                     computed,
		`x.matches()`:                                       computed,
		`['a'].exists(p, x.matches(p))`:                     computed,
		`x.matches`:                                         "",
		`x.matches == 'a'`:                                  "",
		`'x.matches("a")'`:                                  "",
		"// x.matches('a')":                                 "",
		`x.rematches('a') && x.matches2('b')`:               "",
		`r.matches == 'r' && b.matches('c')`:                "c",
		`x.matches('a`:                                      "",
		`x.matches('''a''`:                                  "",
		"x.matches('a\n')":                                  "",
		`x.matches(`:                                        "",
	} {
		if got := strings.Join(patternsOf(cel), "|"); got != want {
			t.Errorf("patterns of %s are %q, want %q", cel, got, want)
		}
	}
}

func TestEscapes(t *testing.T) {
	t.Parallel()
	got := patternsOf(`x.matches('\177\xe9\?\a')`)
	if want := []string{"\x7fé?\a"}; !slices.Equal(got, want) {
		t.Errorf("patterns are %q, want %q", got, want)
	}
}
