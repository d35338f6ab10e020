package istio

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"istio.io/istio/pkg/config"
	"istio.io/istio/pkg/config/schema/gvk"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/mesh/meshtest"
)

// endpoint is where the relay of a test is, as Kubernetes tells of a Service's pods.
const endpoint = `
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: sluice-relay
  namespace: redis
  labels: {kubernetes.io/service-name: sluice-relay}
addressType: IPv4
endpoints: [{addresses: [%s], conditions: {ready: true}}]
ports: [{name: grpc, port: %s, protocol: TCP}]
`

// relayService is the Service that deploy/istio/relay applies, with the endpoint of a relay.
func relayService(t *testing.T, relay *envoytest.Envoy) string {
	t.Helper()
	host, port, err := net.SplitHostPort(relay.Addr)
	testenv.OK(t, err)
	for document := range strings.SplitSeq(render(t, "relay"), "\n---\n") {
		if strings.Contains(document, "kind: Service\n") {
			document = strings.Replace(document, "\nspec:\n", "\nspec:\n  clusterIP: 1.2.3.9\n", 1) // as Kubernetes does
			return document + "\n---" + fmt.Sprintf(endpoint, host, port)
		}
	}
	t.Fatal("deploy/istio/relay has no Service")
	return ""
}

// policies are the resources of Istio among what helm applies of a file.
func policies(t *testing.T, name string) (all []config.Config) {
	t.Helper()
	text := render(t, name, meshtest.Values{"image": image, "config": meshtest.Patient()})
	for document := range strings.SplitSeq(text, "\n---\n") {
		if strings.Contains(document, "istio.io/") {
			all = append(all, parse(t, document)...)
		}
	}
	return all
}

// clusters is the output of "pilot-agent request GET clusters", as if the relay were at its port.
func (p *proxy) clusters() string {
	p.T.Helper()
	resp, err := http.Get("http://" + p.admin + "/clusters")
	if err != nil {
		p.T.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		p.T.Fatal(err)
	}
	return regexp.MustCompile(`:\d+::`).ReplaceAllString(string(text), ":9000::")
}

// TestRelayDecides: proxies that Istio has configured, by supported objects alone, limit requests
// by what the relay's Redis decides.
func TestRelayDecides(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		dir, key string
		start    func(*mesh) *proxy
	}{
		{"gateway-relay", "per-address|", func(m *mesh) *proxy { return m.gateway("gateway-a") }},
		{"sidecar-relay", "per-caller|plain-text", (*mesh).sidecar},
	} {
		t.Run(c.dir, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			relay := envoytest.NewRelay(t, server.Addr, nil)
			m := startMeshBeside(t, policies(t, c.dir), relayService(t, relay))
			p := c.start(m)
			p.AwaitLimit("100")
			p.ExpectUntouched()
			p.AwaitRejection()
			if keys := server.Client().Keys(t.Context(), "*").Val(); len(keys) != 1 || !strings.Contains(keys[0], c.key) {
				t.Errorf("Redis has %q, want one counter of %s", keys, c.key)
			}
			meshtest.ExpectShown(t, "istio/README.md", p.Log(), fmt.Sprintf("sluice: redis %q answers: Redis 7", relayCluster))
			meshtest.ExpectShown(t, "istio/README.md", p.clusters(), relayCluster+"::", ":9000::health_flags::healthy")
			if filters := m.control.Store().List(gvk.EnvoyFilter, ""); len(filters) != 0 {
				t.Errorf("the mesh has %d EnvoyFilters", len(filters))
			}
		})
	}
}
