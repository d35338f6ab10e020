package istio

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	meshconfig "istio.io/api/mesh/v1alpha1"
	"istio.io/istio/pilot/pkg/model"
	"istio.io/istio/pilot/test/xds"
	"istio.io/istio/pkg/config/constants"
	"istio.io/istio/pkg/config/crd"
	istiomesh "istio.io/istio/pkg/config/mesh"
	"istio.io/istio/pkg/config/schema/collections"
	"istio.io/istio/pkg/test/env"
	"istio.io/istio/pkg/test/util/retry"

	upstream "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"

	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/mesh/meshtest"
)

// relayCluster is the cluster that Istio makes of the relay's Service, and limiters name.
const relayCluster = "outbound|9000||sluice-relay.redis.svc.cluster.local"

// ofIstio matches objects of Istio's kinds. Those of Kubernetes may have its labels.
var ofIstio = regexp.MustCompile(`(?m)^apiVersion: \S*istio\.io/`)

// TestRelayValid: nothing that is applied in the relay's form is an EnvoyFilter, and all of it is
// right by the schemas of Istio's CRDs and the validation of its webhook.
func TestRelayValid(t *testing.T) {
	t.Parallel()
	schemas, err := crd.NewValidatorFromFilesWithOptions(
		[]string{filepath.Join(env.IstioSrc, "manifests/charts/base/files/crd-all.gen.yaml")}, crd.WithoutCRDValidation(),
	)
	testenv.OK(t, err)
	for _, dir := range []string{"relay", "gateway-relay", "sidecar-relay", "waypoint-relay"} {
		text := meshtest.Render(t, "istio/"+dir+".yaml")
		if strings.Contains(text, "kind: EnvoyFilter") {
			t.Errorf("%s has an EnvoyFilter", dir)
		}
		for _, document := range strings.Split(text, "\n---\n") {
			if !ofIstio.MatchString(document) {
				continue // Kubernetes' own
			}
			if err := schemas.ValidateCustomResourceYAML(document, nil); err != nil {
				t.Errorf("%s: %v", dir, err)
			}
			for _, c := range parse(t, document) {
				schema, ok := collections.Pilot.FindByGroupVersionKind(c.GroupVersionKind)
				if !ok {
					t.Fatalf("no schema of %v", c.GroupVersionKind)
				}
				if warning, err := schema.ValidateConfig(c); err != nil || warning != nil {
					t.Errorf("%s: %s: %v, %v", dir, c.Name, warning, err)
				}
			}
		}
	}
}

// waypoint is a waypoint and what it needs, next to the relay's Service as Kubernetes has it.
const waypoint = `
apiVersion: v1
kind: Service
metadata:
  labels:
    gateway.istio.io/managed: istio.io-mesh-controller
    gateway.networking.k8s.io/gateway-name: waypoint
    istio.io/gateway-name: waypoint
  name: waypoint
  namespace: default
spec:
  clusterIP: 3.0.0.0
  ports: [{appProtocol: hbone, name: mesh, port: 15008}]
  selector: {gateway.networking.k8s.io/gateway-name: waypoint}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: waypoint, namespace: default}
spec:
  gatewayClassName: waypoint
  listeners: [{name: mesh, port: 15008, protocol: HBONE}]
status:
  addresses: [{type: Hostname, value: waypoint.default.svc.cluster.local}]
---
apiVersion: v1
kind: Service
metadata: {name: sluice-relay, namespace: redis}
spec:
  clusterIP: 1.2.3.9
  ports: [{name: grpc, port: 9000, appProtocol: kubernetes.io/h2c}]
  selector: {app: sluice-relay}
`

// TestRelayCluster: of the relay's Service a sidecar and a gateway get an HTTP/2 cluster of the
// name that limiters use. A waypoint gets it with the extension provider that waypoint-relay
// describes, and not without.
func TestRelayCluster(t *testing.T) {
	t.Parallel()
	proxies := map[string]*model.Proxy{
		"sidecar": {Type: model.SidecarProxy, ConfigNamespace: "default", IPAddresses: []string{"1.1.1.9"}},
		"gateway": {
			Type: model.Router, ConfigNamespace: "istio-system", IPAddresses: []string{"1.1.1.8"},
			Labels: map[string]string{"app": "gw"},
		},
		"waypoint": {
			Type: model.Waypoint, ConfigNamespace: "default", IPAddresses: []string{"3.0.0.1"},
			Labels: map[string]string{
				"gateway.networking.k8s.io/gateway-name": "waypoint",
				"gateway.istio.io/managed":               constants.ManagedGatewayMeshControllerLabel,
			},
		},
	}
	for _, c := range []struct {
		proxy          string
		provider, want bool
	}{
		{"sidecar", false, true},
		{"gateway", false, true},
		{"waypoint", true, true},
		{"waypoint", false, false},
	} {
		t.Run(fmt.Sprint(c.proxy, c.provider), func(t *testing.T) {
			t.Parallel()
			config := istiomesh.DefaultMeshConfig()
			if c.provider {
				config.ExtensionProviders = append(config.ExtensionProviders, provider)
			}
			control := xds.NewFakeDiscoveryServer(t,
				xds.FakeOptions{ConfigString: waypoint, KubernetesObjectString: waypoint, MeshConfig: config})
			retry.UntilOrFail(t, func() bool {
				options := new(upstream.HttpProtocolOptions)
				for _, cluster := range control.Clusters(control.SetupProxy(proxies[c.proxy])) {
					set := cluster.TypedExtensionProtocolOptions["envoy.extensions.upstreams.http.v3.HttpProtocolOptions"]
					if cluster.Name == relayCluster && set != nil {
						testenv.OK(t, set.UnmarshalTo(options))
					}
				}
				return (options.GetExplicitHttpConfig().GetHttp2ProtocolOptions() != nil) == c.want
			}, retry.Timeout(meshtest.Patience))
		})
	}
}

// provider is the mesh's setting in waypoint-relay/limiter.yaml.
var provider = &meshconfig.MeshConfig_ExtensionProvider{
	Name: "sluice-relay",
	Provider: &meshconfig.MeshConfig_ExtensionProvider_EnvoyExtAuthzGrpc{
		EnvoyExtAuthzGrpc: &meshconfig.MeshConfig_ExtensionProvider_EnvoyExternalAuthorizationGrpcProvider{
			Service: "redis/sluice-relay.redis.svc.cluster.local", Port: 9000,
		},
	},
}
