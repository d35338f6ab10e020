package main

import (
	"fmt"
	"go/types"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// Spread says how far a feature reaches into the other files of its package.
type Spread struct {
	Feature string   // its file, without ".go"
	Lines   []string // outside, "file.go:12"
	Files   int      // that have them
}

// Spreads finds the lines of a package that name what a feature declares: its functions, methods, types,
// constants, variables and fields, and fields of its types. A feature is a file of the package that is not
// core, or what also says: more files, folders, or fields and functions, such as "plugin/rule.Pays". The lines
// of index, which names all features, do not count.
func Spreads(root, dir, index string, core []string, also map[string][]string) ([]Spread, error) {
	absolute, loaded, err := load(root, "./"+filepath.ToSlash(dir))
	if err != nil {
		return nil, err
	}
	p := loaded[0]
	owners := map[string]string{}         // of files, folders and names, from the root
	lines := map[string]map[string]bool{} // by feature
	for feature, all := range also {
		for _, what := range all {
			owners[what] = feature
		}
		lines[feature] = map[string]bool{}
	}
	for _, path := range p.GoFiles {
		file := filepath.Base(path)
		if feature := strings.TrimSuffix(file, ".go"); file != index && !slices.Contains(core, feature) {
			owners[dir+"/"+file] = feature
			lines[feature] = map[string]bool{}
		}
	}
	for id, object := range p.TypesInfo.Uses {
		feature := ownerOf(p, absolute, object, owners)
		at := p.Fset.Position(id.Pos())
		if file := filepath.Base(at.Filename); feature != "" && file != index && file != feature+".go" {
			lines[feature][fmt.Sprintf("%s:%d", file, at.Line)] = true
		}
	}
	var all []Spread
	for _, feature := range slices.Sorted(maps.Keys(lines)) {
		s := Spread{Feature: feature, Lines: slices.Sorted(maps.Keys(lines[feature]))}
		files := map[string]bool{}
		for _, line := range s.Lines {
			file, _, _ := strings.Cut(line, ":")
			files[file] = true
		}
		s.Files = len(files)
		all = append(all, s)
	}
	return all, nil
}

// ownerOf is the feature that an object belongs to: by its name, its file or its folder, or, as a field, by
// its type's.
func ownerOf(p *packages.Package, root string, object types.Object, owners map[string]string) string {
	field, isType := false, false
	switch o := object.(type) {
	case *types.Func:
		object = o.Origin()
	case *types.Var:
		object, field = o.Origin(), o.IsField()
	case *types.TypeName:
		isType = true
	case *types.PkgName:
		return ""
	}
	path, err := filepath.Rel(root, p.Fset.Position(object.Pos()).Filename)
	if err != nil || object.Pkg() == nil {
		return ""
	}
	path = filepath.ToSlash(path)
	folder, _, _ := strings.Cut(path, "/"+filepath.Base(path))
	for i, what := range []string{folder + "." + object.Name(), path, folder} {
		if feature := owners[what]; feature != "" && (i > 0 || !isType) {
			return feature
		}
	}
	for t := object.Type(); field; {
		switch is := t.(type) {
		case interface{ Elem() types.Type }: // a pointer, a slice
			t = is.Elem()
		case *types.Named:
			return ownerOf(p, root, is.Origin().Obj(), owners)
		default:
			return ""
		}
	}
	return ""
}
