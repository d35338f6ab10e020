package istio

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"

	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/mesh/meshtest"
)

// proxy is an Envoy of the mesh.
type proxy struct {
	meshtest.Client
	*testenv.Process

	admin string // "host:port"
}

// nodes are the proxies of testdata/mesh.yaml. Istio knows each by its address; nothing connects to it.
var nodes = map[string]map[string]any{
	"gateway-a": {"TYPE": "router", "IP": "10.0.0.9", "NAMESPACE": "istio-system", "APP": "istio-ingressgateway"},
	"gateway-b": {"TYPE": "router", "IP": "10.0.0.10", "NAMESPACE": "istio-system", "APP": "istio-ingressgateway"},
	"reviews":   {"TYPE": "sidecar", "IP": "10.0.0.20", "NAMESPACE": "default", "APP": "reviews"},
}

// start starts a proxy. The environment is added to Envoy's.
func (m *mesh) start(name string, env ...string) *proxy {
	m.t.Helper()
	node := maps.Clone(nodes[name])
	node["NAME"], node["STATS"] = name, cmp.Or(m.stats, "{}")
	node["ADMIN"], node["XDS"] = testenv.FreePort(m.t), m.agent
	path := filepath.Join(m.t.TempDir(), "envoy.yaml")
	testenv.OK(m.t, os.WriteFile(path, []byte(meshtest.Fill(m.t, "testdata/envoy.yaml", node)), 0o600))
	url := fmt.Sprintf("http://127.0.0.1:%d", m.ports[name])
	p := &proxy{Client: meshtest.Client{T: m.t, URL: url}, admin: fmt.Sprintf("127.0.0.1:%d", node["ADMIN"])}
	p.Process = testenv.Run(m.t, env, testenv.Tool(m.t, "envoy"), append([]string{
		"-c", path,
		"--concurrency", "2", "--disable-hot-restart", "--log-level", "warning", "--component-log-level", "wasm:info",
	}, m.args...)...)
	m.t.Cleanup(func() {
		if p.Ended() {
			m.t.Error("envoy has ended by itself")
		}
	})
	p.Await(meshtest.Patience, func(context.Context) error {
		_, err := p.Get()
		return err
	})
	return p
}
