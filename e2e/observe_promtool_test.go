package e2e

import (
	"os/exec"
	"testing"

	"github.com/sluiceproxy/sluice/internal/promtest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestRules runs promtool's checks and the rules' unit tests.
func TestRules(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"check", "config", promtest.Deployed(t, "prometheus", "prometheus.yaml")},
		{
			"check", "rules", "--lint-fatal", promtest.Deployed(t, "prometheus", "recording.yaml"),
			promtest.Deployed(t, "prometheus", "alerts.yaml"),
		},
		{"test", "rules", promtest.Deployed(t, "prometheus", "rules_test.yaml")},
	} {
		if out, err := exec.Command(testenv.Tool(t, "promtool"), args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args[:2], err, out)
		}
	}
}
