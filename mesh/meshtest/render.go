package meshtest

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// Values are the data of a values.yaml that a test replaces.
type Values map[string]string

// Edit replaces a text in a file, as a user would.
type Edit struct {
	File     string // relative to what is applied
	Old, New string
}

// Render is what "kubectl apply -k deploy/<dir>" applies, with values and texts
// replaced.
func Render(t *testing.T, dir string, v Values, edits ...Edit) string {
	t.Helper()
	files := filesys.MakeFsInMemory()
	copyTree(t, files, filepath.Join(testenv.Root(t), "deploy"), strings.Split(dir, "/")[0])

	dir = "/" + dir
	edit(t, files, dir+"/values.yaml", func(text string) string { return replaceData(t, text, v) })
	for _, e := range edits {
		edit(t, files, dir+"/"+e.File, func(text string) string { return strings.ReplaceAll(text, e.Old, e.New) })
	}
	return build(t, files, dir)
}

// build is what "kubectl apply -k" makes of a directory.
func build(t *testing.T, files filesys.FileSystem, dir string) string {
	t.Helper()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, dir)
	if err != nil {
		t.Fatal(err)
	}
	text, err := resources.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// copyTree copies the YAML files of a directory of root to the same directory of "/".
func copyTree(t *testing.T, files filesys.FileSystem, root, dir string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(root), dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return files.MkdirAll("/" + path)
		}
		if filepath.Ext(path) != ".yaml" {
			return nil
		}
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			return err
		}
		return files.WriteFile("/"+path, text)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// edit changes a file, and fails the test if that changes nothing.
func edit(t *testing.T, files filesys.FileSystem, name string, change func(string) string) {
	t.Helper()
	before, err := files.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	after := change(string(before))
	if after == string(before) {
		t.Fatalf("%s is as before", name)
	}
	if err := files.WriteFile(name, []byte(after)); err != nil {
		t.Fatal(err)
	}
}

func replaceData(t *testing.T, text string, v Values) string {
	t.Helper()
	var configMap map[string]any
	if err := yaml.Unmarshal([]byte(text), &configMap); err != nil {
		t.Fatal(err)
	}
	data := configMap["data"].(map[string]any)
	for name, value := range v {
		if _, ok := data[name]; !ok {
			t.Fatalf("values.yaml has no %q", name)
		}
		data[name] = value
	}
	out, err := yaml.Marshal(configMap)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// Fill is a file with each @NAME@ replaced.
func Fill(t *testing.T, file string, with map[string]any) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	filled := string(text)
	for name, value := range with {
		filled = strings.ReplaceAll(filled, "@"+name+"@", fmt.Sprint(value))
	}
	return filled
}

// Patient gives the limiters in resources time for a Redis on a machine with other work.
func Patient(resources string) string {
	return regexp.MustCompile(`(?m)^( +)cluster: .*$`).ReplaceAllString(resources, "$0\n${1}timeout: 10s")
}

// ExpectShown wants deploy/<file>, a page, to show pieces of what a test has seen, and the test to
// have seen them.
func ExpectShown(t *testing.T, file, seen string, pieces ...string) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(testenv.Root(t), "deploy", file))
	if err != nil {
		t.Fatal(err)
	}
	for _, piece := range pieces {
		if !strings.Contains(string(page), piece) {
			t.Errorf("deploy/%s does not show %q", file, piece)
		}
		if !strings.Contains(seen, piece) {
			t.Errorf("deploy/%s shows %q, which was not seen:\n%s", file, piece, seen)
		}
	}
}

// Plain returns the objects of "kubectl apply -k deploy/<dir>" as they are.
func Plain(t *testing.T, dir string) string {
	t.Helper()
	files := filesys.MakeFsInMemory()
	for _, part := range []string{strings.Split(dir, "/")[0], "relay"} {
		copyTree(t, files, filepath.Join(testenv.Root(t), "deploy"), part)
	}
	return build(t, files, "/"+dir)
}
