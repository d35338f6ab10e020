package istio

import (
	"testing"

	"google.golang.org/protobuf/types/known/structpb"
	extensions "istio.io/api/extensions/v1alpha1"
	"istio.io/istio/pilot/pkg/config/kube/crd"
	"istio.io/istio/pkg/config"

	"github.com/sluiceproxy/sluice/mesh/meshtest"
)

// cluster, strict turn on lines that are commented out in kustomization.yaml.
const cluster, strict = "../redis-cluster", "../http"

// render is what "kubectl apply -k deploy/istio/<dir>" applies, with the values
// replaced and some of what is commented out there.
func render(t *testing.T, dir string, v meshtest.Values, uncommented ...string) string {
	t.Helper()
	var edits []meshtest.Edit
	for _, name := range uncommented {
		edits = append(edits, meshtest.Edit{File: "kustomization.yaml", Old: "# - " + name + "\n", New: "- " + name + "\n"})
	}
	return meshtest.Render(t, "istio/"+dir, v, edits...)
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
