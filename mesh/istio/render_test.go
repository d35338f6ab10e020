package istio

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/structpb"
	extensions "istio.io/api/extensions/v1alpha1"
	"istio.io/istio/pilot/pkg/config/kube/crd"
	"istio.io/istio/pkg/config"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// values are the data of values.yaml that a test replaces.
type values map[string]string

// render is what "kubectl apply -k deploy/istio/<dir>" applies, with the values
// replaced and, for a Redis Cluster, the component that is commented out there.
func render(t *testing.T, dir string, v values, cluster bool) string {
	t.Helper()
	files := filesys.MakeFsInMemory()
	source := filepath.Join(testenv.Root(t), "deploy", "istio")
	if err := files.MkdirAll("/istio"); err != nil {
		t.Fatal(err)
	}
	copyTree(t, files, source)

	file := "/istio/" + dir + "/values.yaml"
	edit(t, files, file, func(text string) string { return replaceData(t, text, v) })
	if cluster {
		edit(t, files, "/istio/"+dir+"/kustomization.yaml", func(text string) string {
			return strings.Replace(text, "# - ../redis-cluster", "- ../redis-cluster", 1)
		})
	}
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, "/istio/"+dir)
	if err != nil {
		t.Fatal(err)
	}
	text, err := resources.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func copyTree(t *testing.T, files filesys.FileSystem, source string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(source, "*", "*.yaml"))
	if err != nil || len(found) == 0 {
		t.Fatalf("%s has no files: %v", source, err)
	}
	for _, path := range found {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join("/istio", strings.TrimPrefix(path, source))
		if err := files.WriteFile(name, text); err != nil {
			t.Fatal(err)
		}
	}
}

// edit changes a file, and fails the test if that changes nothing.
func edit(t *testing.T, files filesys.FileSystem, name string, change func(string) string) {
	t.Helper()
	before, err := files.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	after := []byte(change(string(before)))
	if bytes.Equal(before, after) {
		t.Fatalf("%s is as before", name)
	}
	if err := files.WriteFile(name, after); err != nil {
		t.Fatal(err)
	}
}

func replaceData(t *testing.T, text string, v values) string {
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

// parse reads resources as the control plane does.
func parse(t *testing.T, text string) []config.Config {
	t.Helper()
	configs, unknown, err := crd.ParseInputs(text)
	if err != nil || len(unknown) > 0 {
		t.Fatalf("%v, unknown kinds %v", err, unknown)
	}
	return configs
}

// plugin returns the WasmPlugin among resources.
func plugin(t *testing.T, configs []config.Config) *config.Config {
	t.Helper()
	for i := range configs {
		if _, ok := configs[i].Spec.(*extensions.WasmPlugin); ok {
			return &configs[i]
		}
	}
	t.Fatal("no WasmPlugin")
	return nil
}

// setPlugin replaces the pluginConfig of a WasmPlugin, given as JSON.
func setPlugin(t *testing.T, c *config.Config, text string) {
	t.Helper()
	pluginConfig := new(structpb.Struct)
	if err := pluginConfig.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	c.Spec.(*extensions.WasmPlugin).PluginConfig = pluginConfig
}
