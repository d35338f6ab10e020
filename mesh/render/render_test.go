// Package render holds what "sluice render" writes against Helm, and the chart against Helm's lint.
package render

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/action"
	"sigs.k8s.io/yaml"

	"github.com/sluiceproxy/sluice/cmd/sluice/render"
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/mesh/meshtest"
)

const plugin = `{"redis": {"cluster": "x", "password_env": "REDIS_PASSWORD"},
	"rules": [{"name": "a", "limits": [{"algorithm": "gcra", "limit": 1, "window": "1s"}]}]}`

// files are those with values that ship, and what "sluice render" is called with for the same.
var files = []struct {
	file   string
	run    func(*render.Options) (render.Result, error)
	direct bool
	render.Options
}{
	{
		file: "istio/gateway.yaml", run: render.Istio, direct: true,
		Options: render.Options{Image: "oci://r/s:1", App: "istio-ingressgateway"},
	},
	{
		file: "istio/sidecar.yaml", run: render.Istio, direct: true,
		Options: render.Options{Image: "oci://r/s:1", App: "reviews", Sidecar: true},
	},
	{
		file: "envoy-gateway/gateway.yaml", run: render.EnvoyGateway, direct: true,
		Options: render.Options{Image: "r/s:1", Gateway: "eg", Listener: "http"},
	},
	{
		file: "istio/gateway-relay.yaml", run: render.Istio,
		Options: render.Options{Image: "oci://r/s:1", App: "istio-ingressgateway"},
	},
	{
		file: "istio/sidecar-relay.yaml", run: render.Istio,
		Options: render.Options{Image: "oci://r/s:1", App: "reviews", Sidecar: true},
	},
	{
		file: "istio/waypoint-relay.yaml", run: render.Istio,
		Options: render.Options{Image: "oci://r/s:1", Target: "Service/reviews"},
	},
	{
		file: "envoy-gateway/gateway-relay.yaml", run: render.EnvoyGateway,
		Options: render.Options{Image: "r/s:1", Gateway: "eg"},
	},
}

// TestRenderDoesWhatHelmDoes compares what "sluice render" writes with what Helm makes of the
// files with values, but for the plugin's configuration.
func TestRenderDoesWhatHelmDoes(t *testing.T) {
	for _, c := range files {
		t.Run(c.file, func(t *testing.T) {
			o, set := c.Options, meshtest.Values{"image": c.Image}
			o.Plugin, o.Relay = []byte(plugin), render.DefaultRelay
			if c.direct {
				o.Relay, o.Redis = "", []string{"redis.prod:7000"}
				node := meshtest.Values{"host": "redis.prod", "port": 7000}
				set["redis"] = meshtest.Values{"nodes": []any{node}, "passwordEnv": "REDIS_PASSWORD"}
			}
			same(t, c.run, &o, meshtest.Render(t, c.file, set))
		})
	}
}

// TestRelayAsHelmDoes is the same for relays, in all their forms.
func TestRelayAsHelmDoes(t *testing.T) {
	for file, o := range map[string]render.Options{
		"istio/relay.yaml": {For: render.RelayIstio, Allow: []string{
			"cluster.local/ns/istio-system/sa/istio-ingressgateway", "cluster.local/ns/default/sa/reviews",
			"cluster.local/ns/default/sa/waypoint",
		}},
		"envoy-gateway/relay.yaml": {For: render.RelayEnvoyGateway, Allow: []string{"default"}},
		"relay/kubernetes.yaml":    {For: render.RelayKubernetes},
	} {
		for name, more := range map[string]meshtest.Values{
			"plain":   {},
			"cluster": {"cluster": true},
			"TLS":     {"tls": meshtest.Values{"enabled": true, "ca": "/ca", "serverName": "redis"}},
			"replica": {"nodes": []any{
				meshtest.Values{"host": "redis", "port": 6379}, meshtest.Values{"host": "replica", "port": 6379},
			}},
		} {
			t.Run(file+" "+name, func(t *testing.T) {
				o := o
				o.Redis, o.User, o.CA = []string{"redis:6379"}, "sluice", "/ca"
				o.Image, o.TLS, o.Cluster = "registry.example.com/envoy:v1.40.0", name == "TLS", name == "cluster"
				if name == "replica" {
					o.Redis = append(o.Redis, "replica:6379")
				}
				same(t, render.Relay, &o, meshtest.Render(t, file, meshtest.Values{"redis": more}))
			})
		}
	}
}

// same compares what a command renders with what Helm makes.
func same(t *testing.T, run func(*render.Options) (render.Result, error), o *render.Options, helm string) {
	t.Helper()
	result, err := run(o)
	if err != nil {
		t.Fatal(err)
	}
	got, want := resources(t, string(result.YAML)), resources(t, helm)
	testenv.Same(t, "the number of resources", len(got), len(want))
	for name := range want {
		if !reflect.DeepEqual(got[name], want[name]) {
			t.Errorf("%s is\n%v, want\n%v", name, got[name], want[name])
		}
	}
}

// resources are those of a file, by kind and name, without the plugin's configuration.
func resources(t *testing.T, text string) map[string]map[string]any {
	t.Helper()
	all := map[string]map[string]any{}
	for _, document := range strings.Split(text, "\n---\n") {
		var r map[string]any
		if err := yaml.Unmarshal([]byte(document), &r); err != nil {
			t.Fatal(err)
		}
		spec, _ := r["spec"].(map[string]any)
		delete(spec, "pluginConfig")
		switch wasm := spec["wasm"].(type) {
		case []any:
			delete(wasm[0].(map[string]any), "config")
		case map[string]any:
			delete(wasm, "pluginConfig")
		}
		dropComments(r)
		all[r["kind"].(string)+"/"+r["metadata"].(map[string]any)["name"].(string)] = r
	}
	return all
}

// dropComments parses configurations that are texts inside of a resource.
func dropComments(r map[string]any) {
	data, _ := r["data"].(map[string]any)
	for name, text := range data {
		var parsed any
		if yaml.Unmarshal([]byte(fmt.Sprint(text)), &parsed) == nil {
			data[name] = parsed
		}
	}
}

// TestLint: Helm's own lint has nothing to say of the chart with the values that ship.
func TestLint(t *testing.T) {
	shipped := []string{"istio/relay.yaml", "envoy-gateway/relay.yaml", "relay/kubernetes.yaml"}
	for _, c := range files {
		shipped = append(shipped, c.file)
	}
	for _, file := range shipped {
		values, namespace := meshtest.Read(t, file)
		lint := action.NewLint()
		lint.Strict, lint.Namespace = true, namespace
		result := lint.Run([]string{meshtest.Chart(t)}, values)
		for _, err := range result.Errors {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// TestSchema: values that make no sense are refused, and the error names them.
func TestSchema(t *testing.T) {
	rules := meshtest.Values{"rules": []any{meshtest.Values{"name": "a"}}}
	redis := func(name string, value any) meshtest.Values {
		return meshtest.Values{"image": "oci://r/s:1", "config": rules, "redis": meshtest.Values{name: value}}
	}
	for name, c := range map[string]struct {
		values meshtest.Values
		says   string
	}{
		"no image":     {meshtest.Values{"config": rules}, "/image"},
		"no rules":     {meshtest.Values{"image": "oci://r/s:1"}, "/config/rules"},
		"no scheme":    {meshtest.Values{"image": "r/s:1", "config": rules}, "/image"},
		"a typo":       {redis("usernam", "a"), "usernam"},
		"no port":      {redis("nodes", []any{meshtest.Values{"host": "a"}}), "port"},
		"no host":      {redis("nodes", []any{meshtest.Values{"host": "a}", "port": 1}}), "host"},
		"a credential": {meshtest.Values{"config": meshtest.Values{"redis": meshtest.Values{"password": "a"}}}, "password"},
		"a relay that anybody may ask": {
			meshtest.Values{"component": "relay", "relay": meshtest.Values{"image": "e"}}, "allow",
		},
		"a relay without an Envoy":    {meshtest.Values{"component": "relay", "platform": "kubernetes"}, "image"},
		"a limiter of no mesh":        {meshtest.Values{"platform": "kubernetes"}, "platform"},
		"a cluster for Envoy Gateway": {clusterAtGateway, "cluster"},
	} {
		_, err := meshtest.Template(t, "n", c.values)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.says)
		}
	}
}

var clusterAtGateway = meshtest.Values{
	"platform": "envoy-gateway", "through": "redis", "redis": meshtest.Values{"cluster": true},
}

// TestOverlay: a value that is set on top changes what it names and nothing else, whatever order
// lists are in: the rules that a file has stay.
func TestOverlay(t *testing.T) {
	const file = "istio/gateway.yaml"
	before := resources(t, meshtest.Render(t, file))
	after := resources(t, meshtest.Render(t, file, meshtest.Values{"istio": meshtest.Values{"app": "other"}}))
	for name := range before {
		changed := strings.ReplaceAll(fmt.Sprint(before[name]), "istio-ingressgateway", "other")
		testenv.Same(t, name, fmt.Sprint(after[name]), changed)
	}
}

// TestLabels: the pods that limit may be selected by any labels, in all that selects them.
func TestLabels(t *testing.T) {
	const label, gateway = "gateway.networking.k8s.io/gateway-name", "my-gateway"
	want := map[string]any{label: gateway, "a": "b"}
	set := meshtest.Values{"istio": meshtest.Values{"strictHTTP": true, "labels": want}}
	for name, r := range resources(t, meshtest.Render(t, "istio/gateway.yaml", set)) {
		spec := r["spec"].(map[string]any)
		var got any
		if selector, ok := spec["selector"].(map[string]any); ok {
			got = selector["matchLabels"]
		} else {
			got = spec["workloadSelector"].(map[string]any)["labels"]
		}
		testenv.Same(t, name, fmt.Sprint(got), fmt.Sprint(want))
	}
}
