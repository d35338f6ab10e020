package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoytest"
)

// TestDoctorOfEnvoy has "sluice doctor" look at the Envoy that users get, and at what it runs.
func TestDoctorOfEnvoy(t *testing.T) {
	t.Parallel()
	const plugin = `{"redis": {"cluster": "redis"}, "rules": [
		{"name": "per-address", "key": [{"client_ip": true}],
			"limits": [{"algorithm": "gcra", "limit": 10, "window": "1s"}]}]}`
	s := start(t, plugin, envoytest.Options{})
	dir := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", dir, "../cmd/sluice").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, c := range []struct {
		name, plugin string
		status       map[string]string // of checks
	}{
		{"what it runs", plugin, map[string]string{
			"envoy": "pass", "v8": "pass", "configuration": "pass", "place": "pass", "cluster": "pass", "bridge": "pass",
			"stats_tags": "pass", "failure_policy": "pass", "metadata": "pass", "vectors": "pass",
		}},
		{
			"what it does not run", strings.Replace(plugin, `"limit": 10`, `"limit": 11`, 1),
			map[string]string{"configuration": "warn"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(dir, "plugin.json")
			if err := os.WriteFile(file, []byte(c.plugin), 0o600); err != nil {
				t.Fatal(err)
			}
			command := exec.Command(filepath.Join(dir, "sluice"), "doctor", "-c", file, "--redis", s.redis.Addr, "--envoy",
				s.Admin, "-o", "json")
			out, err := command.Output()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			var report struct {
				Checks []struct{ Name, Status, Found string }
			}
			if err := json.Unmarshal(out, &report); err != nil {
				t.Fatal(err)
			}
			for _, check := range report.Checks {
				if want, ok := c.status[check.Name]; ok && check.Status != want {
					t.Errorf("%s: %s, want %s: %s", check.Name, check.Status, want, check.Found)
				}
				delete(c.status, check.Name)
			}
			for name := range c.status {
				t.Errorf("no check %q in %s", name, out)
			}
		})
	}
}
