package regexsize

import (
	"fmt"
	"regexp/syntax"
	"strings"
	"testing"
)

func TestBounds(t *testing.T) {
	t.Parallel()
	tests := []struct {
		regex string
		fits  bool
	}{
		{`^/v[0-9]+/(users|orders|carts)/[^/]+$`, true},
		{`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`, true},
		{`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,63}$`, true},
		{`(?i)^(curl|wget|python-requests|go-http-client|java|okhttp)/`, true},
		{`^` + strings.Repeat("a?", 100) + `$`, true},
		{`^` + strings.Repeat("a?", 200) + `$`, false},
		{strings.Repeat("(a)", 120), true},
		{strings.Repeat("(a)", 130), false},
		{strings.Repeat("a|", 100) + "bb", true},
		{`[a-z]{900}`, true},
		{`[a-z]{1000}[0-9]`, false},
		{`[a-z]{1,100}`, true},
		{`[a-z]{1,200}`, false},
		{`([a-z]{10}){100}`, false},
		{`(a{1,10}){40}`, false},
		{`(a{1,10}){20}`, true},
		{strings.Repeat("(", 20) + strings.Repeat(")", 20), true},
		{strings.Repeat("(", 21) + strings.Repeat(")", 21), false},
		{strings.Repeat("a", 512), true},
		{strings.Repeat("a", 513), false},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%.40q", tt.regex), func(t *testing.T) {
			t.Parallel()
			err := Check(tt.regex)
			if (err == nil) != tt.fits {
				t.Errorf("%s: %v", tt.regex, err)
			}
		})
	}
}

// FuzzMeasure holds that what is measured bounds what is compiled.
func FuzzMeasure(f *testing.F) {
	for _, seed := range []string{
		`a|b|cd`, `(a(b)?)*c+?`, `x{3,7}y{2,}z{0}`, `^$\b`, `(?i)straße`, `a|ab|abc|abcd`, `[^/]+`, `.*`, `\pL{2}`, `(?:)`,
		`(a{2}){3}`, `a**`, `\Qa.b\E`, `[[:alpha:]]|[0-9]`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if Check(text) != nil {
			return
		}
		tree, err := syntax.Parse(text, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		measured := measure(tree)
		simple := tree.Simplify()
		if depth := treeDepth(simple); depth > measured.depth+1 {
			t.Errorf("%q: measured depth %d, is %d", text, measured.depth, depth)
		}
		program, err := syntax.Compile(simple)
		if err != nil {
			t.Fatal(err)
		}
		branches := 0
		for i := range program.Inst {
			switch program.Inst[i].Op {
			case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL, syntax.InstFail,
				syntax.InstMatch:
			default:
				branches++
			}
		}
		// Each program begins with a fail and ends with a match.
		if len(program.Inst)-2 > measured.instructions || branches > measured.branches {
			t.Errorf("%q: measured %+v, is %d with %d branches", text, measured, len(program.Inst), branches)
		}
	})
}

func treeDepth(re *syntax.Regexp) int {
	depth := 0
	for _, sub := range re.Sub {
		depth = max(depth, treeDepth(sub))
	}
	return depth + 1
}
