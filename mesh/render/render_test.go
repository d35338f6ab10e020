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
			same(t, string(result.YAML), meshtest.Render(t, c.dir, c.values))
		})
	}
}

// same compares resources with those that kustomize makes.
func same(t *testing.T, rendered, kustomized string) {
	t.Helper()
	got, want := resources(t, rendered), resources(t, kustomized)
	if len(got) != len(want) {
		t.Errorf("%d resources, want %d", len(got), len(want))
	}
	for name := range want {
		if !reflect.DeepEqual(got[name], want[name]) {
			t.Errorf("%s is\n%v, want\n%v", name, got[name], want[name])
		}
	}
}

// TestRelayAsKustomizeDoes is the same for limiters that ask through a relay, whose files have no
// values.
func TestRelayAsKustomizeDoes(t *testing.T) {
	const image = "registry.example.com/sluice:v1"
	for dir, c := range map[string]struct {
		options render.Options
		render  func(*render.Options) (render.Result, error)
	}{
		"istio/gateway-relay": {
			render.Options{Image: "oci://" + image, App: "istio-ingressgateway"}, render.IstioRelayed,
		},
		"istio/sidecar-relay": {
			render.Options{Image: "oci://" + image, App: "reviews", Sidecar: true}, render.IstioRelayed,
		},
		"istio/waypoint-relay": {
			render.Options{Image: "oci://" + image, Target: "Service/reviews"}, render.IstioRelayed,
		},
		"envoy-gateway/gateway-relay": {
			render.Options{Image: image, Gateway: "eg"}, render.EnvoyGatewayRelayed,
		},
	} {
		t.Run(dir, func(t *testing.T) {
			o := c.options
			o.Plugin, o.Relay = []byte(plugin), render.DefaultRelay
			result, err := c.render(&o)
			if err != nil {
				t.Fatal(err)
			}
			same(t, string(result.YAML), meshtest.Plain(t, dir))
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
		switch wasm := spec["wasm"].(type) {
		case []any:
			delete(wasm[0].(map[string]any), "config")
		case map[string]any:
			delete(wasm, "pluginConfig")
		}
		all[r["kind"].(string)+"/"+r["metadata"].(map[string]any)["name"].(string)] = r
	}
	return all
}
