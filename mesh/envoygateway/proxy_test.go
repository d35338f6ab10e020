package envoygateway

import (
	"testing"

	egv1a1 "github.com/envoyproxy/gateway/api/v1alpha1"
	"sigs.k8s.io/yaml"

	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/mesh/meshtest"
)

// TestEnvironment: Envoy Gateway reads from the EnvoyProxy what Envoy's container is given.
func TestEnvironment(t *testing.T) {
	for file, password := range map[string]string{"gateway-relay": "", "gateway": "REDIS_PASSWORD"} {
		t.Run(file, func(t *testing.T) {
			text := meshtest.Render(t, "envoy-gateway/"+file+".yaml", meshtest.Values{
				"gateway": meshtest.Values{"envoyProxy": true}, "redis": meshtest.Values{"passwordEnv": password},
			})
			var proxy egv1a1.EnvoyProxy
			document := meshtest.Document(t, text, "EnvoyProxy")
			testenv.SameError(t, "the EnvoyProxy", yaml.UnmarshalStrict([]byte(document), &proxy), nil)
			var got []string
			provider := proxy.GetEnvoyProxyProvider().GetEnvoyProxyKubeProvider()
			for _, variable := range provider.EnvoyDeployment.Container.Env {
				got = append(got, variable.Name+"="+variable.Value)
			}
			want := []string{"GLIBC_TUNABLES=glibc.pthread.rseq=0"}
			if password != "" {
				want = append(want, password+"=") // from the Secret
			}
			testenv.SameList(t, "the variables", got, want)
		})
	}
}
