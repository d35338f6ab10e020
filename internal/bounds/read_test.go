package bounds

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Number is a numeric constant of the code.
type Number struct {
	Package string // its last element; "main" is plugin
	Name    string
	File    string // from the root of the repository
	Value   constant.Value
	Comment string

	Bound                 bool
	Unit, Event, Protects string // as the comment says; Event begins with "Beyond it" or "Below it"
}

// FullName is the name with its package: "lease.maxLeases".
func (n *Number) FullName() string { return n.Package + "." + n.Name }

// form is how a comment tells a bound.
var form = regexp.MustCompile(`Bound: (.+?)\. ((?:Beyond|Below) it, .+?)\. Protects (.+)\.$`)

// Read finds the numeric constants of the packages below some folders of a repository, and of those that
// they import. Those that count up (iota) are names, not numbers.
func Read(root string, folders ...string) ([]*Number, error) {
	r := &reader{root: root, files: token.NewFileSet(), packages: map[string]*types.Package{}}
	for _, folder := range folders {
		err := fs.WalkDir(os.DirFS(root), folder, func(dir string, d fs.DirEntry, err error) error {
			switch {
			case err != nil || !d.IsDir():
				return err
			case d.Name() == "testdata":
				return fs.SkipDir
			}
			_, err = r.Import(module + dir)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return r.numbers, nil
}

// reader evaluates constants, which may be made of those of other packages.
type reader struct {
	root     string
	files    *token.FileSet
	packages map[string]*types.Package
	numbers  []*Number
}

const module = "github.com/sluiceproxy/sluice/"

// Import implements types.Importer. It evaluates the constants of a package, those of its functions too.
// What is of another module has no constants here: that a package lacks it, and has two files for one of
// its functions, is no matter.
func (r *reader) Import(name string) (*types.Package, error) {
	if known := r.packages[name]; known != nil {
		return known, nil
	}
	var files []*ast.File
	if folder, ours := strings.CutPrefix(name, module); ours {
		names, _ := filepath.Glob(filepath.Join(r.root, folder, "*.go"))
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(r.files, name, nil, parser.ParseComments)
			if err != nil {
				return nil, err
			}
			files = append(files, file)
		}
	}
	info := &types.Info{Defs: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: r, Error: func(error) {}, FakeImportC: true}
	pkg, _ := config.Check(name, r.files, files, info)
	pkg.MarkComplete()
	r.packages[name] = pkg
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			if d, ok := n.(*ast.GenDecl); ok && d.Tok == token.CONST && !counts(d) {
				r.declared(pkg, d, info)
			}
			return true
		})
	}
	return pkg, nil
}

// counts reports whether a declaration counts up.
func counts(d *ast.GenDecl) (yes bool) {
	ast.Inspect(d, func(n ast.Node) bool {
		name, ok := n.(*ast.Ident)
		yes = yes || ok && name.Name == "iota"
		return !yes
	})
	return yes
}

// declared adds the numbers of a declaration.
func (r *reader) declared(pkg *types.Package, d *ast.GenDecl, info *types.Info) {
	for _, spec := range d.Specs {
		comment := spec.(*ast.ValueSpec).Doc.Text()
		if !d.Lparen.IsValid() {
			comment = d.Doc.Text()
		}
		for _, name := range spec.(*ast.ValueSpec).Names {
			c, ok := info.Defs[name].(*types.Const)
			if !ok || !slices.Contains([]constant.Kind{constant.Int, constant.Float}, c.Val().Kind()) {
				continue
			}
			file, _ := filepath.Rel(r.root, r.files.Position(name.Pos()).Filename)
			n := &Number{Package: pkg.Name(), Name: name.Name, File: filepath.ToSlash(file), Value: c.Val(), Comment: comment}
			n.Bound = strings.Contains(comment, "Bound: ")
			if m := form.FindStringSubmatch(strings.Join(strings.Fields(comment), " ")); m != nil {
				n.Unit, n.Event, n.Protects = m[1], m[2], m[3]
			}
			r.numbers = append(r.numbers, n)
		}
	}
}
