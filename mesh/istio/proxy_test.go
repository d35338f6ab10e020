package istio

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// patience bounds waits; a loaded machine may take long to compile the plugin.
const patience = 60 * time.Second

// proxy is an Envoy of the mesh.
type proxy struct {
	*testenv.Process

	t   *testing.T
	url string
}

// gateway starts one of the gateways, "gateway-a" or "gateway-b".
func (m *mesh) gateway(name string, env ...string) *proxy {
	m.t.Helper()
	// The address is what Istio knows the proxy by; nobody connects to it.
	ip := map[string]string{"gateway-a": "10.0.0.9", "gateway-b": "10.0.0.10"}[name]
	return m.proxy(map[string]any{
		"TYPE": "router", "IP": ip, "NAME": name, "NAMESPACE": "istio-system", "APP": "istio-ingressgateway",
	}, env)
}

// sidecar starts the sidecar of the workload "reviews".
func (m *mesh) sidecar() *proxy {
	m.t.Helper()
	return m.proxy(map[string]any{
		"TYPE": "sidecar", "IP": "10.0.0.20", "NAME": "reviews", "NAMESPACE": "default", "APP": "reviews",
	}, nil)
}

func (m *mesh) proxy(node map[string]any, env []string) *proxy {
	m.t.Helper()
	node["ADMIN"], node["XDS"] = testenv.FreePort(m.t), m.agent
	path := filepath.Join(m.t.TempDir(), "envoy.yaml")
	if err := os.WriteFile(path, []byte(fill(m.t, "testdata/envoy.yaml", node)), 0o600); err != nil {
		m.t.Fatal(err)
	}
	p := &proxy{t: m.t, url: fmt.Sprintf("http://127.0.0.1:%d", m.ports[node["NAME"].(string)])}
	p.Process = testenv.Run(m.t, env, testenv.Tool(m.t, "envoy"), "-c", path,
		"--concurrency", "2", "--disable-hot-restart", "--log-level", "warning", "--component-log-level", "wasm:info")
	m.t.Cleanup(func() {
		select {
		case <-p.Exited():
			m.t.Error("envoy has ended by itself")
		default:
		}
	})
	testenv.Wait(m.t, patience, func() error {
		select {
		case <-p.Exited():
			m.t.Fatal("envoy ended at its start")
		default:
		}
		_, err := p.get()
		return err
	})
	return p
}

// answer is what matters of a response.
type answer struct {
	status int
	limit  string // X-RateLimit-Limit
}

// get sends a request that costs nothing unless the rules say otherwise.
func (p *proxy) get(header ...string) (answer, error) {
	request, err := http.NewRequest(http.MethodGet, p.url, nil)
	if err != nil {
		return answer{}, err
	}
	for i := 0; i+1 < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return answer{}, err
	}
	return answer{resp.StatusCode, resp.Header.Get("X-RateLimit-Limit")}, nil
}

// awaitLimit waits for the proxy to limit by a capacity.
func (p *proxy) awaitLimit(capacity string) {
	p.t.Helper()
	testenv.Wait(p.t, patience, func() error {
		a, err := p.get()
		if err == nil && (a.status != http.StatusOK && a.status != http.StatusTooManyRequests || a.limit != capacity) {
			err = fmt.Errorf("status %d, limit %q; want limit %q", a.status, a.limit, capacity)
		}
		return err
	})
}

// awaitRejection sends requests until one is rejected.
func (p *proxy) awaitRejection() {
	p.t.Helper()
	testenv.Wait(p.t, patience, func() error {
		a, err := p.get()
		if err == nil && a.status != http.StatusTooManyRequests {
			err = errors.New("not rejected")
		}
		return err
	})
}
