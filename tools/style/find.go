package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

const (
	maxColumns = 120 // a tab counts as one
	maxLines   = 100 // of a function in a test, from "func" to its brace
	maxTerms   = 4   // of an if in a test, between && and ||
)

// A finding is one place that is slow to read.
type finding struct {
	file string // from the root
	line int
	text string
}

// walk finds all in the Go files under root, in the order of their paths.
func walk(root string) ([]finding, error) {
	var all []finding
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path != root && strings.HasPrefix(entry.Name(), ".") {
			return filepath.SkipDir
		}
		if entry.IsDir() || filepath.Ext(path) != ".go" {
			return nil
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		in, err := inFile(filepath.ToSlash(name), source)
		all = append(all, in...)
		return err
	})
	return all, err
}

// inFile finds all in one file. A file whose name does not end in _test.go has only its lines counted.
func inFile(name string, source []byte) ([]finding, error) {
	found := longLines(source)
	if strings.HasSuffix(name, "_test.go") {
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, name, source, 0)
		if err != nil {
			return nil, err
		}
		ast.Inspect(file, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.FuncDecl:
				first, last := files.Position(node.Pos()).Line, files.Position(node.End()).Line
				if lines := last - first + 1; lines > maxLines {
					text := fmt.Sprintf("%s has %d lines: %d at most", node.Name.Name, lines, maxLines)
					found = append(found, finding{line: first, text: text})
				}
			case *ast.IfStmt:
				if terms := terms(node.Cond); terms > maxTerms {
					text := fmt.Sprintf("an if with %d terms: %d at most, or one assertion for each", terms, maxTerms)
					found = append(found, finding{line: files.Position(node.Pos()).Line, text: text})
				}
			}
			return true
		})
	}
	for i := range found {
		found[i].file = name
	}
	return found, nil
}

func longLines(source []byte) []finding {
	var found []finding
	number := 0
	for line := range bytes.Lines(source) {
		number++
		if columns := utf8.RuneCount(bytes.TrimRight(line, "\r\n")); columns > maxColumns {
			text := fmt.Sprintf("a line of %d columns: %d at most", columns, maxColumns)
			found = append(found, finding{line: number, text: text})
		}
	}
	return found
}

// terms counts what && and || join in a condition. It looks through ! and parentheses, and not into
// the arguments of calls.
func terms(condition ast.Expr) int {
	switch c := condition.(type) {
	case *ast.BinaryExpr:
		if c.Op == token.LAND || c.Op == token.LOR {
			return terms(c.X) + terms(c.Y)
		}
	case *ast.ParenExpr:
		return terms(c.X)
	case *ast.UnaryExpr:
		return terms(c.X)
	}
	return 1
}
