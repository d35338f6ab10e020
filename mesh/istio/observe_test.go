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
	// The addition of the ConfigMap to the bootstrap, as istio-agent gives it to Envoy: YAML made JSON.
	// https://github.com/istio/istio/blob/1.31.1/pkg/envoy/proxy.go (readBootstrapToJSON)
	var configMap struct{ Data map[string]string }
	text := meshtest.Render(t, "istio/gateway.yaml", meshtest.Values{"istio": meshtest.Values{"bootstrap": true}})
	testenv.OK(t, yaml.Unmarshal([]byte(meshtest.Document(t, text, "ConfigMap")), &configMap))
	labels, err := yaml.YAMLToJSON([]byte(configMap.Data["custom_bootstrap.json"]))
	testenv.OK(t, err)
	// The stats_config of Istio's own bootstrap, which filters statistics.
	node, err := bootstrap.GetNodeMetaData(bootstrap.MetadataOptions{
		ID:          "router~10.0.0.9~gateway-a.istio-system~istio-system.svc.cluster.local",
		InstanceIPs: []string{"10.0.0.9"}, ProxyConfig: istiomesh.DefaultProxyConfig(),
	})
	testenv.OK(t, err)
	var own bytes.Buffer
	template := filepath.Join(env.IstioSrc, "tools/packaging/common/envoy_bootstrap.json")
	testenv.OK(t, bootstrap.New(bootstrap.Config{Node: node}).WriteTo(template, &own))
	var whole struct {
		Stats json.RawMessage `json:"stats_config"`
	}
	testenv.OK(t, json.Unmarshal(own.Bytes(), &whole))
	if !strings.Contains(string(whole.Stats), "stats_matcher") {
		t.Fatalf("Istio's bootstrap filters no statistics: %s", whole.Stats)
	}
	for _, c := range []struct{ name, rule, limit, override string }{
		{"the ConfigMap's labels", "per-key", "an-hour", string(labels)},
		{"relabelling", "per_key", "an_hour", "{}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			port := redistest.Start(t).Port
			m := startMesh(t, applied(t, "gateway", port, meshtest.Plugin(t, promtest.Everything)))
			m.stats, m.args = string(whole.Stats), []string{"--config-yaml", c.override}
			p := m.start("gateway-a")
			prometheus := promtest.Start(t, p.admin)
			prometheus.ExpectData(func() { _, _ = p.Get() }, nil)
			prometheus.ExpectLabels(c.rule, c.limit)
			promtest.ExpectLog(t, p.Log)

			m.apply(applied(t, "gateway", port, meshtest.Plugin(t, `{"rules": [{}]}`)))
			if c.rule == "per-key" { // Istio filters what counts refused extensions
				prometheus.ExpectAlert("SluiceConfigurationRefused")
			}
		})
	}
}
