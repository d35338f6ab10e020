// Package istio applies the very files of deploy/istio to Istio's own control
// plane, with the values replaced, and has stock Envoys limit requests by them.
package istio

import (
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	"istio.io/istio/pilot/pkg/features"
	"istio.io/istio/pilot/test/xds"
	"istio.io/istio/pkg/config"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/mesh/meshtest"
)

// image is where the plugin's image was pushed.
var image string

func TestMain(m *testing.M) {
	// These filters exist only in Istio's build of Envoy.
	features.ALPNFilter = false
	features.MetadataExchange = false
	server := httptest.NewServer(registry.New())
	reference := strings.TrimPrefix(server.URL, "http://") + "/sluice:v1"
	image = "oci://" + reference
	// The command behind "make push".
	push := exec.Command("go", "run", "-C", "../../tools/image", ".", "-wasm", "../../build/sluice.wasm",
		"-push", reference)
	push.Stderr = os.Stderr
	if err := push.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "push:", err)
		os.Exit(1)
	}
	code := m.Run()
	server.Close()
	os.Exit(code)
}

// mesh is a control plane with an upstream, two gateways and a sidecar to come.
type mesh struct {
	t       *testing.T
	control *xds.FakeDiscoveryServer
	agent   int            // port
	ports   map[string]int // of the proxies, by name
	stats   string         // stats_config in their bootstrap; none unless set
	args    []string       // added to those of Envoy
}

// startMesh starts a control plane with configurations, next to objects that Kubernetes has.
func startMesh(t *testing.T, configs []config.Config, kubernetes ...string) *mesh {
	t.Helper()
	m := &mesh{t: t, ports: map[string]int{}}
	for _, name := range []string{"gateway-a", "gateway-b", "reviews"} {
		m.ports[name] = testenv.FreePort(t)
	}
	_, upstream, err := net.SplitHostPort(envoytest.NewUpstream(t, nil).Addr)
	testenv.OK(t, err)
	around := meshtest.Fill(t, "testdata/mesh.yaml", map[string]any{
		"UPSTREAM": upstream, "A": m.ports["gateway-a"], "B": m.ports["gateway-b"], "SIDECAR": m.ports["reviews"],
	})
	m.control = xds.NewFakeDiscoveryServer(t, xds.FakeOptions{
		Configs:                append(parse(t, around), configs...),
		KubernetesObjectString: strings.Join(kubernetes, "\n---\n"),
		ListenerBuilder:        func() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") },
	})
	m.agent = startAgent(t, m.control.Listener.Addr().String())
	return m
}

// apply replaces configurations, as kubectl does.
func (m *mesh) apply(configs []config.Config) {
	m.t.Helper()
	for _, c := range configs {
		old := m.control.Store().Get(c.GroupVersionKind, c.Name, c.Namespace)
		if old == nil {
			m.t.Fatalf("no %s %s", c.GroupVersionKind.Kind, c.Name)
		}
		c.ResourceVersion = old.ResourceVersion
		if _, err := m.control.Store().Update(c); err != nil {
			m.t.Fatal(err)
		}
	}
}
