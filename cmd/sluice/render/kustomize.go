package render

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceproxy/sluice/deploy"
	"github.com/sluiceproxy/sluice/internal/yamltree"
)

// kustomization has the fields that the shipped kustomization.yaml files use of
// https://kubectl.docs.kubernetes.io/references/kustomize/kustomization/.
type kustomization struct {
	Namespace    string
	Resources    []string
	Components   []string
	Patches      []patchFile
	Replacements []replacement
}

type patchFile struct {
	Target selector
	Path   string
}

type selector struct{ Kind, Name string }

type replacement struct {
	Source struct {
		selector  `yaml:",inline"`
		FieldPath string `yaml:"fieldPath"`
	}
	Targets []struct {
		Select     selector
		FieldPaths []string `yaml:"fieldPaths"`
		Options    struct {
			Delimiter string
			Index     int
		}
	}
}

// builder makes of directories what "kubectl apply -k" would apply.
type builder struct {
	values    map[string]string // for the ConfigMap in a values.yaml
	resources []*yamltree.Tree
	// edit changes a kustomization.yaml, by its directory, before it is used.
	edit func(dir string, k *kustomization)
}

// build adds a directory's resources.
func (b *builder) build(dir string) error {
	var k kustomization
	source, err := deploy.Files.ReadFile(path.Join(dir, "kustomization.yaml"))
	if err != nil {
		return err
	}
	if err := yaml.Unmarshal(source, &k); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	b.edit(dir, &k)
	for _, name := range k.Resources {
		if err := b.resource(path.Join(dir, name)); err != nil {
			return err
		}
	}
	for _, name := range k.Components {
		if err := b.build(path.Join(dir, name)); err != nil {
			return err
		}
	}
	for _, p := range k.Patches {
		if err := b.patch(path.Join(dir, p.Path), p.Target); err != nil {
			return err
		}
	}
	if k.Namespace != "" {
		for _, r := range b.resources {
			yamltree.Put(r.At("metadata"), "namespace", text(k.Namespace))
		}
	}
	for _, r := range k.Replacements {
		if err := b.replace(&r); err != nil {
			return err
		}
	}
	return nil
}

// resource adds a file, or a directory.
func (b *builder) resource(name string) error {
	if path.Ext(name) != ".yaml" {
		return b.build(name)
	}
	t, err := shipped(name)
	if err != nil {
		return err
	}
	for field, value := range b.values {
		if path.Base(name) == "values.yaml" {
			t.Set(text(value), "data", field)
		}
	}
	b.resources = append(b.resources, t)
	return t.Err
}

// selected are the resources that a selector means.
func (b *builder) selected(s selector) (found []*yamltree.Tree) {
	for _, r := range b.resources {
		if r.At("kind").Value == s.Kind && (s.Name == "" || r.At("metadata", "name").Value == s.Name) {
			found = append(found, r)
		}
	}
	return found
}

// one is the only resource of a kind and a name; one that is not there has an error, which finish
// returns.
func (b *builder) one(kind, name string) *yamltree.Tree {
	found := b.selected(selector{kind, name})
	if len(found) == 1 {
		return found[0]
	}
	missing := &yamltree.Tree{Root: &yaml.Node{Kind: yaml.MappingNode}}
	missing.Fail("%d resources are %s %q, want one", len(found), kind, name)
	b.resources = append(b.resources, missing)
	return missing
}

func (b *builder) replace(r *replacement) error {
	source := b.one(r.Source.Kind, r.Source.Name)
	value := source.At(strings.Split(r.Source.FieldPath, ".")...)
	if source.Err != nil {
		return source.Err
	}
	for _, target := range r.Targets {
		for _, resource := range b.selected(target.Select) {
			for _, fieldPath := range target.FieldPaths {
				nodes := every(resource.Root, strings.Split(fieldPath, "."))
				if len(nodes) == 0 {
					return fmt.Errorf("%s: no %s", resource.At("metadata", "name").Value, fieldPath)
				}
				for _, n := range nodes {
					assign(n, value.Value, target.Options.Delimiter, target.Options.Index)
				}
			}
		}
	}
	return nil
}

// every is all nodes at a path, in which "*" is any element.
func every(n *yaml.Node, steps []string) []*yaml.Node {
	if len(steps) == 0 {
		return []*yaml.Node{n}
	}
	if steps[0] != "*" {
		if n = yamltree.Child(n, steps[0]); n == nil {
			return nil
		}
		return every(n, steps[1:])
	}
	var found []*yaml.Node
	for _, element := range n.Content {
		found = append(found, every(element, steps[1:])...)
	}
	return found
}

// assign sets a scalar, or one part of it. A number stays a number.
func assign(n *yaml.Node, value, delimiter string, index int) {
	if delimiter != "" {
		parts := strings.Split(n.Value, delimiter)
		if index < len(parts) {
			parts[index] = value
		}
		n.Value = strings.Join(parts, delimiter)
		return
	}
	if i, err := strconv.Atoi(value); err == nil && n.Tag == "!!int" {
		*n = *number(i)
		return
	}
	*n = *text(value)
}

// patch applies a JSON patch (RFC 6902), of "add" and "replace".
func (b *builder) patch(name string, target selector) error {
	source, err := deploy.Files.ReadFile(name)
	if err != nil {
		return err
	}
	var operations []struct {
		Op, Path string
		Value    yaml.Node
	}
	if err := yaml.Unmarshal(source, &operations); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	resource := b.one(target.Kind, target.Name)
	for i := range operations {
		o := &operations[i]
		steps := strings.Split(strings.TrimPrefix(o.Path, "/"), "/")
		last := steps[len(steps)-1]
		switch {
		case o.Op == "add" && last == "-":
			list := resource.At(steps[:len(steps)-1]...)
			list.Content = append(list.Content, &o.Value)
		case o.Op == "replace":
			resource.Set(&o.Value, steps...)
		default:
			return fmt.Errorf("%s: %s %s is not known here", name, o.Op, o.Path)
		}
	}
	return resource.Err
}
