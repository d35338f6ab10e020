package observe

import (
	"fmt"
	"net/url"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// rule is one of Prometheus' rules.
type rule struct {
	Name, Query, State, Health, LastError string

	Alerts []struct{ Annotations map[string]string }
}

// rules returns all rules of a kind, "alert" or "record", by name.
func (p *prometheus) rules(kind string) (map[string]rule, error) {
	var data struct{ Groups []struct{ Rules []rule } }
	if err := p.get("/api/v1/rules", url.Values{"type": {kind}}, &data); err != nil {
		return nil, err
	}
	rules := map[string]rule{}
	for _, group := range data.Groups {
		for _, r := range group.Rules {
			rules[r.Name] = r
		}
	}
	return rules, nil
}

// raised waits until an alert is pending or firing.
func (s *scene) raised(t *testing.T, name string) {
	t.Helper()
	testenv.Wait(t, limit, func() error {
		alerts, err := s.prometheus.rules("alert")
		if err != nil {
			return err
		}
		if a := alerts[name]; a.State != "pending" && a.State != "firing" {
			return fmt.Errorf("%s is %q (%s): %s", name, a.State, a.LastError, a.Query)
		}
		return nil
	})
}

// alerts expects every alert to be raised by its trouble, and every recording
// rule to have recorded something.
func (s *scene) alerts(t *testing.T) {
	alerts, err := s.prometheus.rules("alert")
	if err != nil {
		t.Fatal(err)
	}
	for name, a := range alerts {
		switch name {
		case "SluiceRedisDown": // has been, while Redis was
		case "SluicePluginCrashed": // has not
			s.await(t, expectation{"envoy_wasm_sluice_vm_reload", nil, map[string]int{"": 0}})
		default:
			s.raised(t, name)
		}
		if a.Health != "ok" {
			t.Errorf("%s: health %q: %s", name, a.Health, a.LastError)
		}
	}
	records, err := s.prometheus.rules("record")
	if err != nil {
		t.Fatal(err)
	}
	if len(alerts) < 11 || len(records) < 7 {
		t.Errorf("%d alerts and %d recording rules were loaded", len(alerts), len(records))
	}
	for name := range records {
		s.until(t, name)
	}
}
