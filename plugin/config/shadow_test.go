package config

import (
	"os"
	"testing"
)

// TestShadowConfiguration: the top-level shadow makes enforced rules shadow rules, without
// penalty and leases, and leaves rules that are off alone. A rule's failure mode is its
// own, or else the configuration's.
func TestShadowConfiguration(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/valid/shadow.json")
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		mode    Mode
		failure FailureMode
	}{{Shadow, FailLocal}, {Shadow, FailAllow}, {Shadow, FailDeny}, {Off, FailDeny}} {
		r := &cfg.Rules[i]
		if r.Mode != want.mode {
			t.Errorf("%s: mode %d, want %d", r.Name, r.Mode, want.mode)
		}
		if r.Failure != want.failure {
			t.Errorf("%s: failure %d, want %d", r.Name, r.Failure, want.failure)
		}
		if r.Penalty != nil {
			t.Errorf("%s has a penalty", r.Name)
		}
	}
	if cfg.Rules[1].Limits[0].Lease != nil || cfg.Rules[2].Tiers.Values[0].Limits[0].Lease != nil {
		t.Error("a shadow rule has a lease")
	}
}

// TestUsesEmbeddedStore: the embedded store is there where it decides anything.
func TestUsesEmbeddedStore(t *testing.T) {
	t.Parallel()
	const limits = ` "limits": [{"algorithm": "gcra", "limit": 1, "window": "1s"}]}]}`
	for fields, want := range map[string]bool{
		`{"rules": [{"name": "a",` + limits: true,
		`{"redis": {"cluster": "r"}, "rules": [{"name": "a",` +
			limits: false,
		`{"redis": {"cluster": "r"}, "rules": [{"name": "a", "failure": "local",` + limits:           true,
		`{"redis": {"cluster": "r"}, "failure": {"mode": "local"}, "rules": [{"name": "a",` + limits: true,
		`{"redis": {"cluster": "r"}, "failure": {"mode": "local"}, "rules": [{"name": "a", "failure": "deny",` +
			limits: false,
	} {
		cfg, err := Parse([]byte(fields))
		if err != nil {
			t.Fatal(err)
		}
		if got := cfg.UsesEmbeddedStore(); got != want {
			t.Errorf("%s: %v, want %v", fields, got, want)
		}
	}
}
