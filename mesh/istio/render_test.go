package istio

import (
	"testing"

	"istio.io/istio/pilot/pkg/config/kube/crd"
	"istio.io/istio/pkg/config"
)

// parse reads resources as the control plane does.
func parse(t *testing.T, text string) []config.Config {
	t.Helper()
	configs, unknown, err := crd.ParseInputs(text)
	if err != nil || len(unknown) > 0 {
		t.Fatalf("%v, unknown kinds %v", err, unknown)
	}
	return configs
}
