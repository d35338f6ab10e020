package envoygateway

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/mesh/meshtest"
)

// backend is where the relay is, in place of its Service: Envoy Gateway alone knows no Services.
const backend = `
---
apiVersion: v1
kind: Namespace
metadata: {name: redis}
---
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: Backend
metadata: {name: sluice-relay, namespace: redis}
spec:
  endpoints: [{ip: {address: %s, port: %s}}]
`

// TestRelayDecides: by supported objects alone, without patches, the Gateway's Envoy limits requests by what the
// relay's Redis decides. Whoever knows the route's host reaches no relay by it.
func TestRelayDecides(t *testing.T) {
	server := redistest.Start(t)
	host, port, err := net.SplitHostPort(envoytest.NewRelay(t, server.Addr, nil).Addr)
	testenv.OK(t, err)
	// What helm applies and Envoy Gateway reads.
	resources := meshtest.Render(t, "envoy-gateway/gateway-relay.yaml", meshtest.Values{
		"image": image, "gateway": meshtest.Values{"name": "shop"}, "config": meshtest.Patient(),
	}) + "\n---\n" + meshtest.Document(t, meshtest.Render(t, "envoy-gateway/relay.yaml"), "ReferenceGrant")
	if strings.Contains(resources, "EnvoyPatchPolicy") {
		t.Error("there is an EnvoyPatchPolicy")
	}
	for _, edit := range [][2]string{
		{"namespace: redis, port: 9000", "namespace: redis, group: gateway.envoyproxy.io, kind: Backend"},
		{`group: "", kind: Service`, "group: gateway.envoyproxy.io, kind: Backend"},
	} {
		if !strings.Contains(resources, edit[0]) {
			t.Fatalf("nothing reads %q in\n%s", edit[0], resources)
		}
		resources = strings.ReplaceAll(resources, edit[0], edit[1])
	}
	g := start(t, resources+fmt.Sprintf(backend, host, port))
	g.AwaitLimit("100")
	for path, want := range map[string]string{
		"/none/none":           "7",  // PERMISSION_DENIED
		"/sluice.Redis/Stream": "12", // UNIMPLEMENTED: no route
	} {
		resp, text, err := testenv.Send(http.MethodPost, g.URL+path, "\x00\x00\x00\x00\x0e*1\r\n$4\r\nPING\r\n",
			"host: sluice-relay.invalid", "content-type: application/grpc")
		testenv.OK(t, err)
		testenv.Same(t, path+": that the relay answers", strings.Contains(text, "PONG"), false)
		testenv.Same(t, path+": grpc-status", resp.Header.Get("Grpc-Status"), want)
	}
	envoytest.AwaitRejection(t, g.URL)
	if keys := redistest.Counters(t, server.Client(), ""); len(keys) != 1 {
		t.Errorf("Redis has the counters %q, want 1", keys)
	}
	meshtest.ExpectShown(t, "envoy-gateway/README.md", g.Log(),
		`sluice: redis "grpcroute/default/sluice-relay/rule/0" answers: Redis 7`)
	for kind, name := range map[string]string{"EnvoyExtensionPolicy": "sluice", "SecurityPolicy": "sluice-relay"} {
		if got := g.conditions(kind, name)["Accepted"]; got != "True" {
			t.Errorf("%s is not accepted: %q", kind, got)
		}
	}
}
