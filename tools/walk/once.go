package main

import (
	"fmt"
	"go/ast"
	"go/types"
	"path/filepath"
	"slices"
)

// Once counts the functions and methods that are not exported in the packages that the patterns
// name, and lists those that the code names just once: each makes a reader jump.
func Once(root string, patterns ...string) (all int, once []string, err error) {
	absolute, loaded, err := load(root, patterns...)
	if err != nil {
		return 0, nil, err
	}
	uses, at := map[*types.Func]int{}, map[*types.Func]string{}
	for _, p := range loaded {
		for _, o := range p.TypesInfo.Uses {
			if f, ok := o.(*types.Func); ok {
				uses[f.Origin()]++
			}
		}
		for _, file := range p.Syntax {
			for _, decl := range file.Decls {
				d, ok := decl.(*ast.FuncDecl)
				if !ok || d.Body == nil || d.Name.IsExported() {
					continue
				}
				// "main" and "init" have no object that anybody could use.
				if f, ok := p.TypesInfo.Defs[d.Name].(*types.Func); ok && f.Name() != "main" && f.Name() != "init" {
					path, _ := filepath.Rel(absolute, p.Fset.Position(d.Pos()).Filename)
					at[f] = fmt.Sprintf("%s:%d %s", filepath.ToSlash(path), p.Fset.Position(d.Pos()).Line, name(f))
				}
			}
		}
	}
	for f, text := range at {
		if uses[f] == 1 {
			once = append(once, text)
		}
	}
	slices.Sort(once)
	return len(at), once, nil
}
