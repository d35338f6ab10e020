package bounds

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"path"
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
var form = regexp.MustCompile(`^Bound: (.+?)\. ((?:Beyond|Below) it, .+?)\. Protects (.+)\.$`)

func (n *Number) read() {
	at := strings.Index(n.Comment, "Bound: ")
	if at < 0 {
		return
	}
	n.Bound = true
	text := strings.Join(strings.Fields(n.Comment[at:]), " ")
	if m := form.FindStringSubmatch(text); m != nil {
		n.Unit, n.Event, n.Protects = m[1], m[2], m[3]
	}
}

// Read finds the numeric constants of the packages below some folders of a repository. Those that
// count up (iota) are names, not numbers.
func Read(root string, folders ...string) (numbers []*Number, err error) {
	r := &reader{root: root, files: token.NewFileSet(), packages: map[string]*types.Package{}}
	for _, folder := range folders {
		err = filepath.WalkDir(filepath.Join(root, folder), func(dir string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return err
			}
			if d.Name() == "testdata" {
				return filepath.SkipDir
			}
			found, err := r.numbers(dir)
			numbers = append(numbers, found...)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return numbers, nil
}

// reader evaluates constants, which may be made of those of other packages.
type reader struct {
	root     string
	files    *token.FileSet
	packages map[string]*types.Package
}

const module = "github.com/sluiceproxy/sluice/"

// Import implements types.Importer. What is of another module has no constants here.
func (r *reader) Import(name string) (*types.Package, error) {
	if known := r.packages[name]; known != nil {
		return known, nil
	}
	pkg := types.NewPackage(name, path.Base(name))
	if folder, ours := strings.CutPrefix(name, module); ours {
		files, err := r.parse(filepath.Join(r.root, folder))
		if err != nil {
			return nil, err
		}
		pkg = r.check(name, files, nil)
	}
	pkg.MarkComplete()
	r.packages[name] = pkg
	return pkg, nil
}

func (r *reader) parse(dir string) (files []*ast.File, err error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
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
	return files, err
}

// check evaluates the constants of a package, those of its functions too. That it lacks other
// modules, and has two files for one of its functions, is no matter.
func (r *reader) check(name string, files []*ast.File, info *types.Info) *types.Package {
	config := types.Config{Importer: r, Error: func(error) {}, FakeImportC: true}
	pkg, _ := config.Check(name, r.files, files, info)
	return pkg
}

func (r *reader) numbers(dir string) (numbers []*Number, err error) {
	files, err := r.parse(dir)
	if err != nil || len(files) == 0 {
		return nil, err
	}
	info := &types.Info{Defs: map[*ast.Ident]types.Object{}}
	pkg := r.check(dir, files, info)
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			if d, ok := n.(*ast.GenDecl); ok && numeric(d) {
				for _, spec := range d.Specs {
					numbers = append(numbers, r.declared(pkg.Name(), d, spec.(*ast.ValueSpec), info)...)
				}
			}
			return true
		})
	}
	return numbers, nil
}

// numeric reports whether a declaration is of constants that do not count up.
func numeric(d *ast.GenDecl) bool { return d.Tok == token.CONST && !counts(d) }

// counts reports whether a declaration counts up.
func counts(d *ast.GenDecl) (yes bool) {
	ast.Inspect(d, func(n ast.Node) bool {
		name, ok := n.(*ast.Ident)
		yes = yes || ok && name.Name == "iota"
		return !yes
	})
	return yes
}

func (r *reader) declared(pkg string, d *ast.GenDecl, spec *ast.ValueSpec, info *types.Info) (numbers []*Number) {
	comment := spec.Doc.Text()
	if !d.Lparen.IsValid() {
		comment = d.Doc.Text()
	}
	for _, name := range spec.Names {
		c, ok := info.Defs[name].(*types.Const)
		if !ok || !slices.Contains([]constant.Kind{constant.Int, constant.Float}, c.Val().Kind()) {
			continue
		}
		file, _ := filepath.Rel(r.root, r.files.Position(name.Pos()).Filename)
		n := &Number{Package: pkg, Name: name.Name, File: filepath.ToSlash(file), Value: c.Val(), Comment: comment}
		n.read()
		numbers = append(numbers, n)
	}
	return numbers
}
