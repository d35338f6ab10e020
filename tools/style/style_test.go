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
		want         string // of what is found; "" for nothing
	}{
		"a line of 120 columns":            {"a.go", "//" + strings.Repeat("é", 118) + "\n", ""},
		"a line of 121 columns":            {"a.go", "//" + strings.Repeat("é", 119) + "\n", "a line of 121 columns"},
		"a function of 100 lines":          {"a_test.go", long(100), ""},
		"a function of 101 lines":          {"a_test.go", long(101), "f has 101 lines"},
		"a function of 101 lines, shipped": {"a.go", long(101), ""},
		"four terms":                       {"a_test.go", inside("a && b && c && d"), ""},
		"five terms":                       {"a_test.go", inside("a && b || c || d && e"), "an if with 5 terms"},
		"five terms, shipped":              {"a.go", inside("a && b || c || d && e"), ""},
		"a negation of five":               {"a_test.go", inside("!(a && (b || c) && d && e)"), "an if with 5 terms"},
		"five terms in an argument":        {"a_test.go", inside("f(a && b && c && d && e)"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, err := inFile("p/"+test.file, []byte("package p\n"+test.source))
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, f := range found {
				got += f.text
			}
			if before, _, _ := strings.Cut(got, ":"); before != test.want {
				t.Errorf("found %q, want %q", got, test.want)
			}
		})
	}
}

func TestLinesOfCode(t *testing.T) {
	t.Parallel()
	source := "// Package p does.\npackage p\n\nfunc f() {\n\t// It returns.\n\tg() // at once\n}\n"
	if got := linesOfCode([]byte(source)); got != 4 {
		t.Errorf("%d lines, want 4", got)
	}
}

func TestSize(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		budget       budget
		lines, files int
	}{{budget{}, 2, 1}, {budget{tests: true}, 8, 1}, {budget{tests: true, helpers: true}, 3, 1}} {
		dir := t.TempDir()
		const functions = "func TestA() {\n}\n\n// help helps.\nfunc help() {\n\n\tx++\n}\n"
		for name, source := range map[string]string{
			"a.go": "package a\n", "a_test.go": "package a\nvar x int\n" + functions, "b/b.go": "package b\n",
			"b/b_test.go": "package b\n", ".hidden/c.go": "package c\n", "d.txt": "text\n",
		} {
			path := filepath.Join(dir, filepath.FromSlash(name))
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(source), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		lines, files, err := test.budget.size(dir)
		if err != nil || lines != test.lines || files != test.files {
			t.Errorf("%+v: %d lines, %d files, %v; want %d, %d", test.budget, lines, files, err, test.lines, test.files)
		}
	}
}
