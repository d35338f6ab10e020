package istio

import (
	"context"
	"fmt"
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

// gateway starts one of the gateways, "gateway-a" or "gateway-b".
func (m *mesh) gateway(name string, env ...string) *proxy {
	m.t.Helper()
	// Istio knows the proxy by this address; nothing connects to it.
	ip := map[string]string{"gateway-a": "10.0.0.9", "gateway-b": "10.0.0.10"}[name]
	return m.proxy(map[string]any{
		"TYPE": "router", "IP": ip, "NAME": name, "NAMESPACE": "istio-system", "APP": "istio-ingressgateway",
	}, env)
}

// bootstrapped starts the gateway "gateway-a" with a stats_config in its bootstrap, and
// something to merge into that, as istio-agent has Envoy do.
func (m *mesh) bootstrapped(stats, override string) *proxy {
	m.t.Helper()
	return m.proxy(map[string]any{
		"TYPE": "router", "IP": "10.0.0.9", "NAME": "gateway-a", "NAMESPACE": "istio-system", "APP": "istio-ingressgateway",
		"STATS": stats,
	}, nil, "--config-yaml", override)
}

// sidecar starts the sidecar of the workload "reviews".
func (m *mesh) sidecar() *proxy {
	m.t.Helper()
	return m.proxy(map[string]any{
		"TYPE": "sidecar", "IP": "10.0.0.20", "NAME": "reviews", "NAMESPACE": "default", "APP": "reviews",
	}, nil)
}

func (m *mesh) proxy(node map[string]any, env []string, args ...string) *proxy {
	m.t.Helper()
	if node["STATS"] == nil {
		node["STATS"] = "{}"
	}
	node["ADMIN"], node["XDS"] = testenv.FreePort(m.t), m.agent
	path := filepath.Join(m.t.TempDir(), "envoy.yaml")
	testenv.OK(m.t, os.WriteFile(path, []byte(meshtest.Fill(m.t, "testdata/envoy.yaml", node)), 0o600))
	url := fmt.Sprintf("http://127.0.0.1:%d", m.ports[node["NAME"].(string)])
	p := &proxy{Client: meshtest.Client{T: m.t, URL: url}, admin: fmt.Sprintf("127.0.0.1:%d", node["ADMIN"])}
	p.Process = testenv.Run(m.t, env, testenv.Tool(m.t, "envoy"), append([]string{
		"-c", path,
		"--concurrency", "2", "--disable-hot-restart", "--log-level", "warning", "--component-log-level", "wasm:info",
	}, args...)...)
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
