package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFind(t *testing.T) {
	t.Parallel()
	long := func(lines int) string { return "func f() {\n" + strings.Repeat("\tf()\n", lines-2) + "}\n" }
	inside := func(condition string) string {
		return "func f() {\n\tif " + condition + " {\n\t}\n}\n"
	}
	for name, test := range map[string]struct {
		file, source string
		want         counts
	}{
		"a line of 120 columns":           {"a.go", "//" + strings.Repeat("é", 118) + "\n", counts{}},
		"a line of 121 columns":           {"a.go", "//" + strings.Repeat("é", 119) + "\n", counts{1, 0, 0}},
		"a function of 60 lines":          {"a_test.go", long(60), counts{}},
		"a function of 61 lines":          {"a_test.go", long(61), counts{0, 1, 0}},
		"a function of 61 lines, shipped": {"a.go", long(61), counts{}},
		"two terms":                       {"a_test.go", inside("a && b"), counts{}},
		"three terms":                     {"a_test.go", inside("a && b || c"), counts{0, 0, 1}},
		"three terms, shipped":            {"a.go", inside("a && b || c"), counts{}},
		"a negation of three":             {"a_test.go", inside("!(a && (b || c))"), counts{0, 0, 1}},
		"three terms in an argument":      {"a_test.go", inside("f(a && b && c)"), counts{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, err := inFile("p/"+test.file, []byte("package p\n"+test.source))
			if err != nil {
				t.Fatal(err)
			}
			if got := found.counts()["p"]; got != test.want {
				t.Errorf("%v, want %v: %v", got, test.want, found)
			}
		})
	}
}

func TestCeilings(t *testing.T) {
	t.Parallel()
	found := findings{{pkg: "a", kind: longLine}, {pkg: "a", kind: longLine}, {pkg: "b", kind: longCondition}}
	for name, test := range map[string]struct {
		ceilings ceilings
		over     int
		lowered  string
	}{
		"at the ceiling":    {ceilings{"a": {2, 0, 0}, "b": {0, 0, 1}}, 0, "a 2 0 0\nb 0 0 1\n"},
		"below the ceiling": {ceilings{"a": {9, 9, 9}, "b": {0, 0, 1}, "c": {1, 1, 1}}, 0, "a 2 0 0\nb 0 0 1\n"},
		"over the ceiling":  {ceilings{"a": {1, 0, 0}, "b": {0, 0, 1}}, 2, "a 1 0 0\nb 0 0 1\n"},
		"not listed":        {ceilings{"a": {2, 0, 0}}, 1, "a 2 0 0\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if over := found.over(test.ceilings); len(over) != test.over {
				t.Errorf("%d over their ceilings, want %d: %v", len(over), test.over, over)
			}
			file := filepath.Join(t.TempDir(), "ceilings.txt")
			if err := writeCeilings(file, test.ceilings.lowered(found)); err != nil {
				t.Fatal(err)
			}
			written, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.TrimPrefix(string(written), header); got != test.lowered {
				t.Errorf("lowered to\n%s\nwant\n%s", got, test.lowered)
			}
		})
	}
}

func TestCeilingsAreNumbers(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ceilings.txt")
	if err := os.WriteFile(file, []byte("# a comment\n\ne2e 1 2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := readCeilings(file)
	if err == nil || !strings.Contains(err.Error(), `ceilings.txt:3: "e2e 1 2"`) {
		t.Errorf("the error is %v, want one that names line 3", err)
	}
}

func TestCeilingsFallInAMerge(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ceilings.txt")
	if err := os.WriteFile(file, []byte("e2e 5 1 0\ne2e 2 3 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	read, err := readCeilings(file)
	if err != nil {
		t.Fatal(err)
	}
	if want := (counts{2, 1, 0}); read["e2e"] != want {
		t.Errorf("the ceiling of e2e is %v, want %v", read["e2e"], want)
	}
}
