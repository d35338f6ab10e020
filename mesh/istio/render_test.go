package istio

import (
	"testing"

	"google.golang.org/protobuf/types/known/structpb"
	extensions "istio.io/api/extensions/v1alpha1"
	"istio.io/istio/pilot/pkg/config/kube/crd"
	"istio.io/istio/pkg/config"

	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/mesh/meshtest"
)

// render renders deploy/istio/<name>.yaml as helm does, with other values in place of some.
func render(t *testing.T, name string, sets ...meshtest.Values) string {
	t.Helper()
	return meshtest.Render(t, "istio/"+name+".yaml", sets...)
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
	testenv.OK(t, pluginConfig.UnmarshalJSON([]byte(text)))
	c.Spec.(*extensions.WasmPlugin).PluginConfig = pluginConfig
}
