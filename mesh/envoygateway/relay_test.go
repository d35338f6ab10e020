package envoygateway

import (
	"bytes"
	"fmt"
	"io"
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

// relayed is the part that helm applies of the files with a relay that Envoy Gateway reads, with a
// Redis behind the relay.
func relayed(t *testing.T) (resources string, server *redistest.Server) {
	t.Helper()
	server = redistest.Start(t)
	host, port, err := net.SplitHostPort(envoytest.NewRelay(t, server.Addr, nil).Addr)
	testenv.OK(t, err)
	text := meshtest.Render(t, "envoy-gateway/gateway-relay.yaml", meshtest.Values{
		"image": image, "gateway": meshtest.Values{"name": "shop"}, "config": meshtest.Patient(),
	})
	relay := meshtest.Render(t, "envoy-gateway/relay.yaml")
	text += "\n---\n" + meshtest.Document(t, relay, "ReferenceGrant")
	for _, edit := range [][2]string{
		{"namespace: redis, port: 9000", "namespace: redis, group: gateway.envoyproxy.io, kind: Backend"},
		{`group: "", kind: Service`, "group: gateway.envoyproxy.io, kind: Backend"},
	} {
		if !strings.Contains(text, edit[0]) {
			t.Fatalf("nothing reads %q in\n%s", edit[0], text)
		}
		text = strings.ReplaceAll(text, edit[0], edit[1])
	}
	return text + fmt.Sprintf(backend, host, port), server
}

// TestRelayDecides: by supported objects alone, without patches, the Gateway's Envoy limits
// requests by what the relay's Redis decides.
func TestRelayDecides(t *testing.T) {
	resources, server := relayed(t)
	if strings.Contains(resources, "EnvoyPatchPolicy") {
		t.Error("there is an EnvoyPatchPolicy")
	}
	g := start(t, resources)
	g.AwaitLimit("100")
	envoytest.AwaitRejection(t, g.URL)
	if n := server.Client().DBSize(t.Context()).Val(); n != 1 {
		t.Errorf("Redis has %d counters, want 1", n)
	}
	meshtest.ExpectShown(t, "envoy-gateway/README.md", g.Log(),
		`sluice: redis "grpcroute/default/sluice-relay/rule/0" answers: Redis 7`)
	for _, kind := range []string{"EnvoyExtensionPolicy", "SecurityPolicy"} {
		name := map[string]string{"EnvoyExtensionPolicy": "sluice", "SecurityPolicy": "sluice-relay"}[kind]
		if got := g.conditions(kind, name)["Accepted"]; got != "True" {
			t.Errorf("%s is not accepted: %q", kind, got)
		}
	}
}

// TestRelayIsShut: whoever knows the route's host reaches no relay by it.
func TestRelayIsShut(t *testing.T) {
	resources, _ := relayed(t)
	g := start(t, resources)
	g.AwaitLimit("100")
	for path, want := range map[string]string{
		"/none/none":           "7",  // PERMISSION_DENIED
		"/sluice.Redis/Stream": "12", // UNIMPLEMENTED: no route
	} {
		if got := g.knock(path); got != want {
			t.Errorf("%s: grpc-status %q, want %s", path, got, want)
		}
	}
}

// knock asks for a path of the relay's host, as gRPC does.
func (g *gateway) knock(path string) (status string) {
	g.T.Helper()
	ping := []byte("\x00\x00\x00\x00\x0e*1\r\n$4\r\nPING\r\n")
	request, err := http.NewRequest(http.MethodPost, g.URL+path, bytes.NewReader(ping))
	if err != nil {
		g.T.Fatal(err)
	}
	request.Host = "sluice-relay.invalid"
	request.Header.Set("Content-Type", "application/grpc")
	resp, err := http.DefaultClient.Do(request)
	if err != nil {
		g.T.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || bytes.Contains(body, []byte("PONG")) {
		g.T.Errorf("%s: %v, %q", path, err, body)
	}
	return resp.Header.Get("Grpc-Status")
}
