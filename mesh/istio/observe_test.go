package istio

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"istio.io/istio/pkg/bootstrap"
	istiomesh "istio.io/istio/pkg/config/mesh"
	"istio.io/istio/pkg/test/env"
	"sigs.k8s.io/yaml"

	"github.com/sluiceproxy/sluice/internal/promtest"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/mesh/meshtest"
)

// TestMonitoring: dashboard, alerts and recording rules have data, with the labels of the
// ConfigMap, and without them by the relabelling of prometheus.yaml.
func TestMonitoring(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, rule, limit string
		override          func(*testing.T) string
	}{
		{"the ConfigMap's labels", "per-key", "an-hour", override},
		{"relabelling", "per_key", "an_hour", func(*testing.T) string { return "{}" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			configs := parse(t, render(t, "gateway", at(redistest.Start(t).Port)))
			wasm := plugin(t, configs)
			setPlugin(t, wasm, strings.Replace(promtest.Everything, `"cluster": "redis"`, `"cluster": "sluice-redis"`, 1))
			m := startMesh(t, configs)
			p := m.bootstrapped(statsOfIstio(t), c.override(t))
			prometheus := promtest.Start(t, p.admin)
			prometheus.ExpectData(func() { _, _ = p.Get() }, nil)
			prometheus.ExpectLabels(c.rule, c.limit)
			promtest.ExpectLog(t, p.Log)

			mistaken := wasm.DeepCopy()
			setPlugin(t, &mistaken, `{"rules": [{}]}`)
			m.apply(mistaken)
			if c.rule == "per-key" { // Istio filters what counts refused extensions
				prometheus.ExpectAlert("SluiceConfigurationRefused")
			}
		})
	}
}

// override is the addition of the ConfigMap to the bootstrap, as istio-agent gives it
// to Envoy: YAML made JSON.
// https://github.com/istio/istio/blob/1.31.1/pkg/envoy/proxy.go (readBootstrapToJSON)
func override(t *testing.T) string {
	t.Helper()
	set := meshtest.Values{"istio": meshtest.Values{"bootstrap": true}}
	var configMap struct{ Data map[string]string }
	for document := range strings.SplitSeq(render(t, "gateway", set), "\n---\n") {
		if !strings.Contains(document, "kind: ConfigMap\n") {
			continue
		}
		testenv.OK(t, yaml.Unmarshal([]byte(document), &configMap))
	}
	converted, err := yaml.YAMLToJSON([]byte(configMap.Data["custom_bootstrap.json"]))
	testenv.OK(t, err)
	return string(converted)
}

// statsOfIstio is the stats_config of Istio's own bootstrap, which filters statistics.
func statsOfIstio(t *testing.T) string {
	t.Helper()
	node, err := bootstrap.GetNodeMetaData(bootstrap.MetadataOptions{
		ID:          "router~10.0.0.9~gateway-a.istio-system~istio-system.svc.cluster.local",
		InstanceIPs: []string{"10.0.0.9"}, ProxyConfig: istiomesh.DefaultProxyConfig(),
	})
	testenv.OK(t, err)
	var text bytes.Buffer
	template := filepath.Join(env.IstioSrc, "tools/packaging/common/envoy_bootstrap.json")
	testenv.OK(t, bootstrap.New(bootstrap.Config{Node: node}).WriteTo(template, &text))
	var whole struct {
		Stats json.RawMessage `json:"stats_config"`
	}
	testenv.OK(t, json.Unmarshal(text.Bytes(), &whole))
	if !strings.Contains(string(whole.Stats), "stats_matcher") {
		t.Fatalf("Istio's bootstrap filters no statistics: %s", whole.Stats)
	}
	return string(whole.Stats)
}
