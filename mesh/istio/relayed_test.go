package istio

import (
	"fmt"
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

// TestRelayDecides: proxies that Istio has configured, by supported objects alone, limit requests
// by what the relay's Redis decides.
func TestRelayDecides(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		dir, key, proxy string
	}{
		{"gateway-relay", "per-address|", "gateway-a"},
		{"sidecar-relay", "per-caller|plain-text", "reviews"},
	} {
		t.Run(c.dir, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			relay := envoytest.NewRelay(t, server.Addr, nil)
			host, port, err := net.SplitHostPort(relay.Addr)
			testenv.OK(t, err)
			service := meshtest.Document(t, meshtest.Render(t, "istio/relay.yaml"), "Service")
			service = strings.Replace(service, "\nspec:\n", "\nspec:\n  clusterIP: 1.2.3.9\n", 1) // as Kubernetes does
			var policies []config.Config                                                          // the resources of Istio
			text := meshtest.Render(t, "istio/"+c.dir+".yaml",
				meshtest.Values{"image": image, "config": meshtest.Patient()})
			for document := range strings.SplitSeq(text, "\n---\n") {
				if strings.Contains(document, "istio.io/") {
					policies = append(policies, parse(t, document)...)
				}
			}
			m := startMesh(t, policies, service, fmt.Sprintf(endpoint, host, port))
			p := m.start(c.proxy)
			p.AwaitLimit("100")
			p.ExpectUntouched()
			envoytest.AwaitRejection(t, p.URL)
			if keys := server.Client().Keys(t.Context(), "*").Val(); len(keys) != 1 || !strings.Contains(keys[0], c.key) {
				t.Errorf("Redis has %q, want one counter of %s", keys, c.key)
			}
			meshtest.ExpectShown(t, "istio/README.md", p.Log(), fmt.Sprintf("sluice: redis %q answers: Redis 7", relayCluster))
			// The output of "pilot-agent request GET clusters".
			_, clusters, err := testenv.Send(http.MethodGet, "http://"+p.admin+"/clusters", "")
			testenv.OK(t, err)
			shown := regexp.MustCompile(`:\d+::`).ReplaceAllString(clusters, ":9000::") // the relay's port
			meshtest.ExpectShown(t, "istio/README.md", shown, relayCluster+"::", ":9000::health_flags::healthy")
			if filters := m.control.Store().List(gvk.EnvoyFilter, ""); len(filters) != 0 {
				t.Errorf("the mesh has %d EnvoyFilters", len(filters))
			}
		})
	}
}
