package envoygateway

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/sluiceproxy/sluice/internal/promtest"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
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
			all := strings.Replace(promtest.Everything, `"cluster": "redis"`, `"cluster": "sluice-redis"`, 1)
			resources := withConfig(t, rendered(t, redistest.Start(t).Port), all)
			g := startObserved(t, resources, shipped(t, c.fields))
			g.AwaitLimit("3")
			prometheus := promtest.Start(t, g.admin())
			prometheus.ExpectData(func() { _, _ = g.Get() }, nil)
			prometheus.ExpectLabels(c.rule, c.limit)
			promtest.ExpectLog(t, g.Log)

			g.apply(withConfig(t, resources, `{"rules": [{}]}`))
			prometheus.ExpectAlert("SluiceConfigurationRefused")
		})
	}
}

// admin is the address of Envoy's admin interface, as Envoy wrote it into a file: of an
// Envoy on its own machine, Envoy Gateway leaves the port to the system.
func (g *gateway) admin() (address string) {
	g.T.Helper()
	err := filepath.WalkDir(g.home, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Name() != "admin-address.txt" {
			return err
		}
		text, err := os.ReadFile(path)
		address = string(text)
		return err
	})
	if err != nil || address == "" {
		g.T.Fatalf("Envoy's admin interface: %q, %v", address, err)
	}
	return address
}

// shipped are fields of the EnvoyProxy that the chart makes, a line each.
func shipped(t *testing.T, names []string) string {
	t.Helper()
	var proxy struct{ Spec map[string]any }
	for document := range strings.SplitSeq(rendered(t, 1), "\n---\n") {
		if !strings.Contains(document, "kind: EnvoyProxy\n") {
			continue
		}
		testenv.OK(t, yaml.Unmarshal([]byte(document), &proxy))
	}
	var lines []string
	for _, name := range names {
		value, err := json.Marshal(proxy.Spec[name])
		testenv.OK(t, err)
		lines = append(lines, name+": "+string(value))
	}
	return strings.Join(lines, "\n  ")
}
