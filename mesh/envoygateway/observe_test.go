package envoygateway

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/sluiceproxy/sluice/internal/promtest"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/mesh/meshtest"
)

// TestMonitoring: dashboard, alerts and recording rules have data, with the labels of
// the EnvoyProxy, and without them by the relabelling of prometheus.yaml.
func TestMonitoring(t *testing.T) {
	for _, c := range []struct {
		name, rule, limit string
		fields            []string // of the EnvoyProxy
	}{
		{"the EnvoyProxy", "per-key", "an-hour", []string{"bootstrap", "telemetry"}},
		{"relabelling", "per_key", "an_hour", []string{"telemetry"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			port := redistest.Start(t).Port
			var proxy struct{ Spec map[string]any }
			testenv.OK(t, yaml.Unmarshal([]byte(meshtest.Document(t, rendered(t, port), "EnvoyProxy")), &proxy))
			var fields []string // as the chart makes them, a line each
			for _, name := range c.fields {
				value, err := json.Marshal(proxy.Spec[name])
				testenv.OK(t, err)
				fields = append(fields, name+": "+string(value))
			}
			g := start(t, rendered(t, port, meshtest.Plugin(t, promtest.Everything)), fields...)
			g.AwaitLimit("3")
			// Of an Envoy on its own machine, Envoy Gateway leaves the port of the admin interface to the system.
			files, err := filepath.Glob(filepath.Join(g.home, "run", "*", "admin-address.txt"))
			if err != nil || len(files) != 1 {
				t.Fatalf("files with the address of Envoy's admin interface: %q, %v", files, err)
			}
			prometheus := promtest.Start(t, string(testenv.Read(t, files[0])))
			prometheus.ExpectData(func() { _, _ = g.Get() }, nil)
			prometheus.ExpectLabels(c.rule, c.limit)
			promtest.ExpectLog(t, g.Log)

			g.apply(rendered(t, port, meshtest.Plugin(t, `{"rules": [{}]}`)))
			prometheus.ExpectAlert("SluiceConfigurationRefused")
		})
	}
}
