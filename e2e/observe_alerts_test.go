package e2e

import (
	"testing"

	"github.com/sluiceproxy/sluice/internal/promtest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// alerts expects every alert to be raised by its trouble, and every recording
// rule to have recorded something.
func (s *scene) alerts(t *testing.T) {
	alerts, err := s.prometheus.Rules("alert")
	testenv.OK(t, err)
	for name, a := range alerts {
		if promtest.OfRelay(name) {
			continue
		}
		switch name {
		case "SluiceRedisDown": // has been, while Redis was
		case "SluiceNoMetrics", "SluiceConfigurationRefused", "SluiceRuleNeverApplies", "SluiceSettlementsLost": // not here
		case "SluiceRedisEvicts", "SluiceRedisMemory", "SluiceRedisKeysGrow": // in TestRedisHealth, and promtool's tests
		case "SluiceRedisSlow": // in promtool's tests: here a quick machine answers too many others in time
		case "SluicePluginCrashed": // has not
			s.await(t, "0\n", "sum(envoy_wasm_sluice_vm_reload)")
		default:
			s.prometheus.ExpectAlert(name)
		}
		if a.Health != "ok" {
			t.Errorf("%s: health %q: %s", name, a.Health, a.LastError)
		}
	}
	records, err := s.prometheus.Rules("record")
	testenv.OK(t, err)
	if len(alerts) < 16 || len(records) < 8 {
		t.Errorf("%d alerts and %d recording rules were loaded", len(alerts), len(records))
	}
	for name := range records {
		s.until(t, name)
	}
}
