package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
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
func wide(root string) (all []finding, err error) {
	for dir, name := range narrow {
		paths, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(dir), "*.go"))
		if err != nil {
			return nil, err
		}
		var files []*ast.File
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return nil, err
			}
			files = append(files, file)
		}
		if text := tooWide(name, files); text != "" {
			all = append(all, finding{file: dir, line: 1, text: text})
		}
	}
	return all, nil
}

// tooWide says what a type has too many of, in the files of its package; "" for nothing.
func tooWide(name string, files []*ast.File) string {
	methods, fields := 0, -1
	for _, file := range files {
		ast.Inspect(file, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.FuncDecl:
				if node.Recv != nil && receiver(node.Recv.List[0].Type) == name {
					methods++
				}
			case *ast.TypeSpec:
				if fieldsOf, ok := node.Type.(*ast.StructType); ok && node.Name.Name == name {
					fields = fieldsOf.Fields.NumFields()
				}
			}
			return true
		})
	}
	switch {
	case fields < 0:
		return name + " is not a struct of this package any more"
	case methods > maxMethods:
		return fmt.Sprintf("%s has %d methods: %d at most", name, methods, maxMethods)
	case fields > maxFields:
		return fmt.Sprintf("%s has %d fields: %d at most", name, fields, maxFields)
	}
	return ""
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
