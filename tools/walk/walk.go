package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/tools/go/packages"
)

// Stay is a run of calls into functions of one file.
type Stay struct {
	File      string // from the root
	Functions []string
	Return    bool // the file was left before
}

func (s Stay) text() string {
	text := strings.Join(slices.Compact(s.Functions), ", ")
	if s.Return {
		text = "(again) " + text
	}
	return text
}

// Returns counts the stays in files that had been left.
func Returns(stays []Stay) (n int) {
	for _, s := range stays {
		if s.Return {
			n++
		}
	}
	return n
}

// Walk follows a parameter of a function, which is named with its receiver's type, in the package
// of a folder under root.
func Walk(root, dir, function, parameter string) ([]Stay, error) {
	absolute, loaded, err := load(root, "./"+filepath.ToSlash(dir))
	if err != nil {
		return nil, err
	}
	w := walker{
		root: absolute, bodies: map[*types.Func]body{},
		passed: map[*types.Func]bool{}, follows: map[types.Object]bool{},
	}
	packages.Visit(loaded, nil, func(p *packages.Package) {
		if p.Module != nil && p.Module.Main {
			w.learn(p)
		}
	})
	for f, b := range w.bodies {
		if name(f) != function || b.info != loaded[0].TypesInfo {
			continue
		}
		for _, field := range b.decl.Type.Params.List {
			for _, id := range field.Names {
				if id.Name == parameter {
					w.follows[b.info.Defs[id]] = true
					w.enter(f)
					return w.stays, nil
				}
			}
		}
	}
	return nil, fmt.Errorf("%s has no %s with a parameter %s", dir, function, parameter)
}

// known are the packages that load has loaded, by root and patterns.
var known sync.Map

// load loads packages under root, and all that they import. It refuses what does not compile.
func load(root string, patterns ...string) (absolute string, loaded []*packages.Package, err error) {
	if absolute, err = filepath.Abs(root); err != nil {
		return "", nil, err
	}
	key := fmt.Sprint(absolute, patterns)
	if before, ok := known.Load(key); ok {
		return absolute, before.([]*packages.Package), nil
	}
	loaded, err = packages.Load(&packages.Config{
		Dir: absolute,
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo |
			packages.NeedImports | packages.NeedDeps | packages.NeedModule,
	}, patterns...)
	packages.Visit(loaded, nil, func(p *packages.Package) {
		for _, e := range p.Errors {
			err = errors.Join(err, e)
		}
	})
	if err == nil {
		known.Store(key, loaded)
	}
	return absolute, loaded, err
}

// body is a function with its source.
type body struct {
	decl *ast.FuncDecl
	info *types.Info
	file string
}

type walker struct {
	root    string
	bodies  map[*types.Func]body
	passed  map[*types.Func]bool
	follows map[types.Object]bool // the parameter, by all names that it and its parts have
	stays   []Stay
}

func (w *walker) learn(p *packages.Package) {
	for _, file := range p.Syntax {
		path := p.Fset.Position(file.Pos()).Filename
		relative, err := filepath.Rel(w.root, path)
		if err != nil {
			continue
		}
		for _, decl := range file.Decls {
			if d, ok := decl.(*ast.FuncDecl); ok && d.Body != nil {
				if f, ok := p.TypesInfo.Defs[d.Name].(*types.Func); ok {
					w.bodies[f] = body{decl: d, info: p.TypesInfo, file: filepath.ToSlash(relative)}
				}
			}
		}
	}
}

// name is a function's name, with its receiver's type in front.
func name(f *types.Func) string {
	receiver := f.Signature().Recv()
	if receiver == nil {
		return f.Name()
	}
	t := receiver.Type()
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	if n, ok := t.(*types.Named); ok {
		return n.Obj().Name() + "." + f.Name()
	}
	return f.Name()
}

// enter notes the call of a function, and walks through it the first time.
func (w *walker) enter(f *types.Func) {
	b := w.bodies[f]
	if n := len(w.stays); n == 0 || w.stays[n-1].File != b.file {
		again := slices.ContainsFunc(w.stays, func(s Stay) bool { return s.File == b.file })
		w.stays = append(w.stays, Stay{File: b.file, Return: again})
	}
	stay := &w.stays[len(w.stays)-1]
	stay.Functions = append(stay.Functions, name(f))
	if w.passed[f] {
		return
	}
	w.passed[f] = true
	ast.Inspect(b.decl.Body, func(n ast.Node) bool { return w.see(b.info, n) })
}

// see walks through one node of a body, and reports whether those below it are to be walked, too.
func (w *walker) see(info *types.Info, n ast.Node) bool {
	switch n := n.(type) {
	case *ast.AssignStmt:
		for _, right := range n.Rhs {
			ast.Inspect(right, func(n ast.Node) bool { return w.see(info, n) })
		}
		for i, left := range n.Lhs {
			right := n.Rhs[0]
			if len(n.Rhs) == len(n.Lhs) {
				right = n.Rhs[i]
			}
			if id, ok := left.(*ast.Ident); ok && (n.Tok == token.DEFINE || n.Tok == token.ASSIGN) && w.mentions(info, right) {
				w.follow(info, id)
			}
		}
		return false
	case *ast.RangeStmt:
		if w.mentions(info, n.X) {
			for _, id := range []ast.Expr{n.Key, n.Value} {
				if id, ok := id.(*ast.Ident); ok {
					w.follow(info, id)
				}
			}
		}
	case *ast.CallExpr:
		w.call(info, n)
		return false
	}
	return true
}

func (w *walker) follow(info *types.Info, id *ast.Ident) {
	object := info.Defs[id]
	if object == nil {
		object = info.Uses[id]
	}
	if object != nil && id.Name != "_" {
		w.follows[object] = true
	}
}

// mentions reports whether an expression is what is followed, or a part of it: a field, an element, an address.
func (w *walker) mentions(info *types.Info, e ast.Expr) bool {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		return w.follows[info.Uses[e]]
	case *ast.SelectorExpr:
		return w.mentions(info, e.X)
	case *ast.IndexExpr:
		return w.mentions(info, e.X)
	case *ast.SliceExpr:
		return w.mentions(info, e.X)
	case *ast.StarExpr:
		return w.mentions(info, e.X)
	case *ast.UnaryExpr:
		return e.Op == token.AND && w.mentions(info, e.X)
	}
	return false
}

// call walks into the function that is called, if what is followed goes with the call.
func (w *walker) call(info *types.Info, c *ast.CallExpr) {
	ast.Inspect(c.Fun, func(n ast.Node) bool { return w.see(info, n) })
	for _, arg := range c.Args {
		ast.Inspect(arg, func(n ast.Node) bool { return w.see(info, n) })
	}
	var id *ast.Ident
	var receiver ast.Expr
	switch f := ast.Unparen(c.Fun).(type) {
	case *ast.Ident:
		id = f
	case *ast.SelectorExpr:
		id, receiver = f.Sel, f.X
	case *ast.IndexExpr:
		id, _ = f.X.(*ast.Ident)
	}
	if id == nil {
		return
	}
	f, ok := info.Uses[id].(*types.Func)
	if !ok {
		return
	}
	f = f.Origin()
	if _, ok := w.bodies[f]; !ok {
		return
	}
	goes := false
	if r := f.Signature().Recv(); r != nil && receiver != nil && w.mentions(info, receiver) {
		w.follows[r], goes = true, true
	}
	for i, arg := range c.Args {
		params := f.Signature().Params()
		if p := params.At(min(i, params.Len()-1)); w.mentions(info, arg) && !isPlain(p.Type()) {
			w.follows[p], goes = true, true
		}
	}
	if goes {
		w.enter(f)
	}
}

// isPlain reports whether a type is that of a number, a text, or a list of these: what becomes of them
// is no part of the way.
func isPlain(t types.Type) bool {
	if s, ok := t.Underlying().(*types.Slice); ok {
		t = s.Elem()
	}
	_, ok := t.Underlying().(*types.Basic)
	return ok
}
