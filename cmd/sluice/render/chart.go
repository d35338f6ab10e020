package render

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"text/template"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceproxy/sluice/deploy"
	"github.com/sluiceproxy/sluice/internal/yamltree"
)

// values are those of the chart, deploy/chart/values.yaml, or some of them.
type values = map[string]any

// chart renders deploy/chart as "helm template" does, with values in place of those in values.yaml.
// It keeps the comments, and the order of the files.
func chart(namespace string, set values) (*resources, error) {
	all := values{}
	if err := yaml.Unmarshal(must(deploy.Files.ReadFile("chart/values.yaml")), &all); err != nil {
		return nil, fmt.Errorf("values.yaml: %w", err)
	}
	merge(all, set)
	templates := template.New("chart").Option("missingkey=zero")
	must(templates.Funcs(functions(templates)).ParseFS(deploy.Files, "chart/templates/*"))
	data := map[string]any{"Values": all, "Release": map[string]any{"Namespace": namespace}}
	made := new(resources)
	for _, name := range must(fs.Glob(deploy.Files, "chart/templates/*.yaml")) {
		var out bytes.Buffer
		if err := templates.ExecuteTemplate(&out, name[strings.LastIndexByte(name, '/')+1:], data); err != nil {
			return nil, err
		}
		if err := made.add(out.String()); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return made, nil
}

// merge puts values over others, as Helm does: objects are merged, all else is replaced.
func merge(dst, src values) {
	for name, value := range src {
		inner, isObject := value.(values)
		old, wasObject := dst[name].(values)
		if isObject && wasObject {
			merge(old, inner)
		} else {
			dst[name] = value
		}
	}
}

// functions are those of Helm's that the templates use.
func functions(templates *template.Template) template.FuncMap {
	return template.FuncMap{
		"include": func(name string, data any) (string, error) {
			var out strings.Builder
			err := templates.ExecuteTemplate(&out, name, data)
			return out.String(), err
		},
		"nindent": func(n int, text string) string {
			pad := "\n" + strings.Repeat(" ", n)
			return pad + strings.ReplaceAll(text, "\n", pad)
		},
		"quote": func(value any) string { return strconv.Quote(fmt.Sprint(value)) },
		"required": func(message string, value any) (any, error) {
			if value == nil || value == "" {
				return nil, errors.New(message)
			}
			return value, nil
		},
		"sha256sum": func(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) },
		"toYaml": func(value any) (string, error) {
			text, err := yaml.Marshal(value)
			return strings.TrimSuffix(string(text), "\n"), err
		},
		"trim": strings.TrimSpace,
	}
}

// resources are objects of Kubernetes on their way into a file.
type resources struct{ all []*yamltree.Tree }

// add adds the documents of a rendered template, which may be none.
func (r *resources) add(text string) error {
	for document := range strings.SplitSeq(text, "\n---\n") {
		if strings.TrimSpace(document) == "" {
			continue
		}
		t, err := yamltree.Parse([]byte(strings.TrimSpace(document) + "\n"))
		if err != nil {
			return err
		}
		r.all = append(r.all, t)
	}
	return nil
}

// one is the only resource of a kind and a name; one that is not there has an error, which finish
// returns.
func (r *resources) one(kind, name string) *yamltree.Tree {
	var found []*yamltree.Tree
	for _, t := range r.all {
		if t.At("kind").Value == kind && t.At("metadata", "name").Value == name {
			found = append(found, t)
		}
	}
	if len(found) == 1 {
		return found[0]
	}
	missing := &yamltree.Tree{Root: &yaml.Node{Kind: yaml.MappingNode}}
	missing.Fail("%d resources are %s %q, want one", len(found), kind, name)
	r.all = append(r.all, missing)
	return missing
}

// finish writes the resources.
func (r *resources) finish(command string, p *plugin) (Result, error) {
	for _, t := range r.all {
		t.Root.Style = 0
		t.At("metadata").Style = 0
	}
	if len(r.all) > 0 {
		about := fmt.Sprintf("# Written by %q, from deploy/chart.", "sluice render "+command)
		r.all[0].About = strings.TrimSpace(about + "\n" + r.all[0].About)
	}
	out, err := yamltree.Write(r.all...)
	return Result{YAML: out, Notes: p.notes()}, err
}
