package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
)

const (
	maxMethods = 30 // of a type
	maxFields  = 12 // of a struct
)

// narrow are the types that once were packages written as one type, by the folder of their package.
var narrow = map[string]string{"plugin/decide": "Stores", "plugin/redis": "Conn"}

// wide finds the narrow types under root that have too many methods or fields.
func wide(root string) ([]finding, error) {
	var all []finding
	for dir, name := range narrow {
		paths, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(dir), "*.go"))
		if err != nil {
			return nil, err
		}
		var sources []string
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			source, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			sources = append(sources, string(source))
		}
		text, err := tooWide(name, sources)
		if err != nil {
			return nil, err
		}
		if text != "" {
			all = append(all, finding{file: dir, line: 1, text: text})
		}
	}
	return all, nil
}

// tooWide says what a type has too many of, in the files of its package; "" for nothing.
func tooWide(name string, sources []string) (string, error) {
	methods, fields, found := 0, 0, false
	for _, source := range sources {
		file, err := parser.ParseFile(token.NewFileSet(), "", source, 0)
		if err != nil {
			return "", err
		}
		ast.Inspect(file, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.FuncDecl:
				if node.Recv != nil && receiver(node.Recv.List[0].Type) == name {
					methods++
				}
			case *ast.TypeSpec:
				if fieldsOf, ok := node.Type.(*ast.StructType); ok && node.Name.Name == name {
					fields, found = fieldsOf.Fields.NumFields(), true
				}
			}
			return true
		})
	}
	switch {
	case !found:
		return name + " is not a struct of this package any more", nil
	case methods > maxMethods:
		return fmt.Sprintf("%s has %d methods: %d at most", name, methods, maxMethods), nil
	case fields > maxFields:
		return fmt.Sprintf("%s has %d fields: %d at most", name, fields, maxFields), nil
	}
	return "", nil
}

// receiver is the name of a receiver's type.
func receiver(e ast.Expr) string {
	if pointer, ok := e.(*ast.StarExpr); ok {
		e = pointer.X
	}
	name, _ := e.(*ast.Ident)
	if name == nil {
		return ""
	}
	return name.Name
}
