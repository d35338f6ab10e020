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
	"regexp"
	"strings"
)

// A budget is what the Go files in and under a folder may have. A line of code is neither blank nor a
// comment alone.
type budget struct {
	dir     string
	tests   bool // count the files that end in _test.go, and no others
	helpers bool // of these count the functions that are no tests
	lines   int  // Bound: lines of code. Beyond it, make lint fails. Protects whoever reads all of it.
	files   int  // Bound: files in the folder itself, 0 for any number.
}

// budgets may be lowered when code leaves. Before code enters that needs more, something of its size leaves.
var budgets = []budget{
	{dir: "plugin", lines: 15300, files: 16},
	{dir: "plugin/config", lines: 2845, files: 15},
	{dir: "plugin/decide", lines: 2888, files: 24},
	{dir: "plugin/redis", lines: 2200, files: 17},
	{dir: "cmd/sluice", lines: 10365},
	{dir: "cmd/demo", lines: 150},
	{dir: "cmd/luabench", lines: 645},
	{dir: "cmd/zones", lines: 235},
	{dir: "bench", lines: 1700},
	{dir: ".", tests: true, lines: 42900},
	{dir: ".", tests: true, helpers: true, lines: 8100},
}

// over finds the budgets that the files under root exceed.
func over(root string) (all []finding, err error) {
	for _, b := range budgets {
		lines, files, err := b.size(root)
		if err != nil {
			return nil, err
		}
		if lines > b.lines {
			text := fmt.Sprintf("%d lines of code: %d at most", lines, b.lines)
			if b.helpers {
				text += ", in functions of test files that are no tests"
			}
			all = append(all, finding{file: b.dir, line: 1, text: text})
		}
		if b.files > 0 && files > b.files {
			all = append(all, finding{file: b.dir, line: 1, text: fmt.Sprintf("%d files: %d at most", files, b.files)})
		}
	}
	return all, nil
}

// size counts the lines of code in and under the folder, and the files in the folder itself.
func (b *budget) size(root string) (lines, files int, err error) {
	dir := filepath.Join(root, filepath.FromSlash(b.dir))
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path != dir && strings.HasPrefix(entry.Name(), ".") {
			return filepath.SkipDir
		}
		if entry.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") != b.tests {
			return nil
		}
		source, err := os.ReadFile(path)
		if err == nil && b.helpers {
			source, err = helpers(source)
		}
		lines += linesOfCode(source)
		if filepath.Dir(path) == filepath.Clean(dir) {
			files++
		}
		return err
	})
	return lines, files, err
}

// helpers is what a test file has of functions that are no tests.
func helpers(source []byte) (text []byte, err error) {
	positions := token.NewFileSet()
	file, err := parser.ParseFile(positions, "", source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, decl := range file.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && (f.Recv != nil || !aTest.MatchString(f.Name.Name)) {
			from, to := positions.Position(f.Pos()).Offset, positions.Position(f.End()).Offset
			text = append(append(text, source[from:to]...), '\n')
		}
	}
	return text, nil
}

var aTest = regexp.MustCompile(`^(Test|Fuzz|Benchmark|Example)`)

func linesOfCode(source []byte) (n int) {
	for line := range bytes.Lines(source) {
		line = bytes.TrimSpace(line)
		if len(line) > 0 && !bytes.HasPrefix(line, []byte("//")) {
			n++
		}
	}
	return n
}
