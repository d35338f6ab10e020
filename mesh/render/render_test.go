// Package render holds what "sluice render" writes against kustomize.
package render

import (
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/sluiceproxy/sluice/cmd/sluice/render"
	"github.com/sluiceproxy/sluice/mesh/meshtest"
)

const plugin = `{"redis": {"cluster": "x", "password_env": "REDIS_PASSWORD"},
	"rules": [{"name": "a", "limits": [{"algorithm": "gcra", "limit": 1, "window": "1s"}]}]}`

// TestRenderDoesWhatKustomizeDoes compares what "sluice render" writes with what
// "kubectl apply -k" makes of the same values, but for the plugin's configuration.
func TestRenderDoesWhatKustomizeDoes(t *testing.T) {
	options := render.Options{
		Plugin: []byte(plugin), Redis: []string{"redis.prod:7000"}, App: "pods", Gateway: "g",
		Listener: "https",
	}
	istio := meshtest.Values{"image": "oci://r/s:1", "app": "pods", "redis-host": "redis.prod", "redis-port": "7000"}
	gateway := meshtest.Values{
		"image": "r/s:1", "gateway": "g", "listener": "https", "redis-host": "redis.prod",
		"redis-port": "7000",
	}
	for _, c := range []struct {
		name, dir, image string
		values           meshtest.Values
		sidecar          bool
		render           func(*render.Options) (render.Result, error)
	}{
		{name: "a gateway of Istio", dir: "istio/gateway", image: "oci://r/s:1", values: istio, render: render.Istio},
		{
			name: "a sidecar of Istio", dir: "istio/sidecar", image: "oci://r/s:1", values: istio, sidecar: true,
			render: render.Istio,
		},
		{name: "Envoy Gateway", dir: "envoy-gateway", image: "r/s:1", values: gateway, render: render.EnvoyGateway},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := options
			o.Image, o.Sidecar = c.image, c.sidecar
			result, err := c.render(&o)
			if err != nil {
				t.Fatal(err)
			}
			got, want := resources(t, string(result.YAML)), resources(t, meshtest.Render(t, c.dir, c.values))
			if len(got) != len(want) {
				t.Errorf("%d resources, want %d", len(got), len(want))
			}
			for name := range want {
				if !reflect.DeepEqual(got[name], want[name]) {
					t.Errorf("%s is\n%v, want\n%v", name, got[name], want[name])
				}
			}
		})
	}
}

// resources are those of a file, by kind and name, without the plugin's
// configuration.
func resources(t *testing.T, text string) map[string]map[string]any {
	t.Helper()
	all := map[string]map[string]any{}
	for _, document := range strings.Split(text, "\n---\n") {
		var r map[string]any
		if err := yaml.Unmarshal([]byte(document), &r); err != nil {
			t.Fatal(err)
		}
		spec := r["spec"].(map[string]any)
		delete(spec, "pluginConfig")
		if plugins, ok := spec["wasm"].([]any); ok {
			delete(plugins[0].(map[string]any), "config")
		}
		all[r["kind"].(string)+"/"+r["metadata"].(map[string]any)["name"].(string)] = r
	}
	return all
}
