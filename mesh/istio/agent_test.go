package istio

import (
	"net"
	"testing"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"istio.io/istio/pkg/model"
	"istio.io/istio/pkg/wasm"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// agent stands where istio-agent does, between Envoy and the control plane: it
// passes everything on, and has istio-agent's own code fetch the images of Wasm
// extensions into files.
type agent struct {
	discovery.UnimplementedAggregatedDiscoveryServiceServer

	control discovery.AggregatedDiscoveryServiceClient
	cache   wasm.Cache
}

// startAgent returns the port on which Envoy finds the agent.
func startAgent(t *testing.T, control string) int {
	t.Helper()
	conn, err := grpc.NewClient(control, grpc.WithTransportCredentials(insecure.NewCredentials()))
	testenv.OK(t, err)
	t.Cleanup(func() { conn.Close() })
	cache := wasm.NewLocalFileCache(t.TempDir(), wasm.Options{})
	t.Cleanup(cache.Cleanup)

	server := grpc.NewServer()
	discovery.RegisterAggregatedDiscoveryServiceServer(server, &agent{
		control: discovery.NewAggregatedDiscoveryServiceClient(conn), cache: cache,
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testenv.OK(t, err)
	go func() { _ = server.Serve(l) }() // ends with Stop
	t.Cleanup(server.Stop)
	return l.Addr().(*net.TCPAddr).Port
}

// StreamAggregatedResources relays one Envoy's stream.
func (a *agent) StreamAggregatedResources(
	envoy discovery.AggregatedDiscoveryService_StreamAggregatedResourcesServer,
) error {
	control, err := a.control.StreamAggregatedResources(envoy.Context())
	if err != nil {
		return err
	}
	go func() {
		defer func() { _ = control.CloseSend() }()
		for {
			request, err := envoy.Recv()
			if err != nil || control.Send(request) != nil {
				return
			}
		}
	}()
	for {
		response, err := control.Recv()
		if err != nil {
			return err
		}
		if response.TypeUrl == model.ExtensionConfigurationType {
			if err := wasm.MaybeConvertWasmExtensionConfig(response.Resources, a.cache); err != nil {
				return err
			}
		}
		if err := envoy.Send(response); err != nil {
			return err
		}
	}
}
