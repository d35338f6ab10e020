package envoygateway

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/mesh/meshtest"
)

// service is the relay's in a cluster where Services have the addresses of their pods: Envoy
// Gateway alone knows no EndpointSlices.
const service = `
---
apiVersion: v1
kind: Namespace
metadata: {name: redis}
---
apiVersion: v1
kind: Service
metadata: {name: sluice-relay, namespace: redis}
spec:
  clusterIP: 127.0.0.1
  ports: [{name: grpc, port: 9000, protocol: TCP, appProtocol: kubernetes.io/h2c}]
`

// relayed is what the directories of the relay's form apply that Envoy Gateway reads.
func relayed(t *testing.T) string {
	t.Helper()
	text := meshtest.Plain(t, "envoy-gateway/gateway-relay")
	for document := range strings.SplitSeq(meshtest.Plain(t, "envoy-gateway/relay"), "\n---\n") {
		if strings.Contains(document, "kind: ReferenceGrant\n") {
			text += "\n---\n" + document
		}
	}
	values := strings.NewReplacer("registry.example.com/sluice:v1", image, "name: eg\n", "name: shop\n")
	return values.Replace(text) + service
}

// startRelay runs the relay where the Service is: the tests have a network of their own.
func startRelay(t *testing.T) *redistest.Server {
	t.Helper()
	server := redistest.Start(t)
	envoytest.NewRelay(t, server.Addr, func(c *envoyconf.Config) {
		c.Set("static_resources/listeners/relay/address/socket_address/port_value", 9000)
	})
	return server
}

// atServices has Envoy Gateway lead to the addresses of Services.
const atServices = "routingType: Service\n  telemetry: {accessLog: {disable: true}}"

// TestRelayDecides: by supported objects alone, without patches, the Gateway's Envoy limits
// requests by what the relay's Redis decides.
func TestRelayDecides(t *testing.T) {
	server := startRelay(t)
	resources := relayed(t)
	if strings.Contains(resources, "EnvoyPatchPolicy") {
		t.Error("there is an EnvoyPatchPolicy")
	}
	g := startObserved(t, resources, atServices)
	g.AwaitLimit("100")
	g.AwaitRejection()
	if n := server.Client().DBSize(t.Context()).Val(); n != 1 {
		t.Errorf("Redis has %d counters, want 1", n)
	}
	g.awaitLog(`redis "grpcroute/default/sluice-relay/rule/0" answers: Redis`)
	for _, kind := range []string{"EnvoyExtensionPolicy", "SecurityPolicy"} {
		name := map[string]string{"EnvoyExtensionPolicy": "sluice", "SecurityPolicy": "sluice-relay"}[kind]
		if got := g.conditions(kind, name)["Accepted"]; got != "True" {
			t.Errorf("%s is not accepted: %q", kind, got)
		}
	}
}

// TestRelayIsShut: whoever knows the route's host reaches no relay by it.
func TestRelayIsShut(t *testing.T) {
	startRelay(t)
	g := startObserved(t, relayed(t), atServices)
	g.AwaitLimit("100")
	for path, want := range map[string]int{
		"/none/none":           http.StatusForbidden,
		"/sluice.Redis/Stream": http.StatusNotFound,
	} {
		if got := g.knock(path); got != want {
			t.Errorf("%s: status %d, want %d", path, got, want)
		}
	}
}

// knock asks for a path of the relay's host, as gRPC does.
func (g *gateway) knock(path string) (status int) {
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
	return resp.StatusCode
}
