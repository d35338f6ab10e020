package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

func TestTooWide(t *testing.T) {
	t.Parallel()
	fields := func(n int) string {
		return "package p\ntype T struct {\na int\n" + strings.Repeat("b, c int\n", n/2) + "}\n"
	}
	methods := func(n int) string { return "package p\n" + strings.Repeat("func (t *T) f() {}\n", n) }
	for name, test := range map[string]struct {
		sources []string
		want    string // of what is found, before the colon; "" for nothing
	}{
		"11 fields and 30 methods": {[]string{fields(10), methods(15), methods(15)}, ""},
		"13 fields":                {[]string{fields(12)}, "T has 13 fields"},
		"31 methods in two files":  {[]string{fields(10), methods(15), methods(16)}, "T has 31 methods"},
		"methods without pointers": {[]string{fields(10) + strings.Repeat("func (T) f() {}\n", 31)}, "T has 31 methods"},
		"another type's methods":   {[]string{fields(10), methods(30), "package p\nfunc (u *U) f() {}\n"}, ""},
		"no such type":             {[]string{methods(1)}, "T is not a struct of this package any more"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var files []*ast.File
			for _, source := range test.sources {
				file, err := parser.ParseFile(token.NewFileSet(), "", source, 0)
				if err != nil {
					t.Fatal(err)
				}
				files = append(files, file)
			}
			got := tooWide("T", files)
			if before, _, _ := strings.Cut(got, ":"); before != test.want {
				t.Errorf("found %q, want %q", got, test.want)
			}
		})
	}
}
