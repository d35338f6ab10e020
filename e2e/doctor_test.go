package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

const diagnosed = `{"redis": {"cluster": "redis"}, "rules": [
	{"name": "per-address", "key": [{"client_ip": true}],
		"limits": [{"algorithm": "gcra", "limit": 10, "window": "1s"}]}]}`

// diagnosis is what "sluice doctor" says.
type diagnosis struct {
	Checks []check
	code   int
}

type check struct{ Name, Status, Found string }

// doctor runs "sluice doctor".
func doctor(t *testing.T, plugin string, args ...string) (d diagnosis) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "plugin.json")
	testenv.OK(t, os.WriteFile(file, []byte(plugin), 0o600))
	command := exec.Command(sluice(t), append([]string{"doctor", "-c", file, "-o", "json"}, args...)...)
	out, _ := command.Output() // its exit code is looked at
	d.code = command.ProcessState.ExitCode()
	if err := json.Unmarshal(out, &d); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	return d
}

// want holds that there is a check of a name with this status, whose text has these words; "none": that there is none.
func (d diagnosis) want(t *testing.T, name, status, words string) {
	t.Helper()
	found := check{Status: "none"}
	for _, c := range d.Checks {
		if c.Name == name {
			found = c
		}
	}
	testenv.Same(t, fmt.Sprintf("%s of %+v", name, d.Checks), found.Status, status)
	testenv.Same(t, found.Found+" has "+words, strings.Contains(found.Found, words), true)
}

// TestDoctorOfEnvoy has "sluice doctor" look at the Envoy that users get, and at what it runs.
func TestDoctorOfEnvoy(t *testing.T) {
	t.Parallel()
	s := start(t, diagnosed, envoytest.Options{})
	const closed = "wasmcustom.sluice.redis.state.closed.breaker_workers"
	requests := startLoad(t, 16, s.URL) // on so many connections that each worker has one
	testenv.Wait(t, time.Minute, func() error { return atLeast(int(s.Stats(closed)[closed]), 2, "workers ask Redis") })
	requests.stop()
	d := doctor(t, diagnosed, "--redis", s.redis.Addr, "--envoy", s.Admin)
	testenv.Same(t, "exit code", d.code, 0)
	for _, name := range []string{
		"envoy", "v8", "configuration", "place", "cluster", "bridge", "stats_tags", "failure_policy", "metadata", "vectors",
	} {
		d.want(t, name, "pass", "")
	}
	d.want(t, "endpoints", "pass", "leads to "+s.redis.Addr)
	d.want(t, "metrics", "pass", "metrics of Sluice")
	d.want(t, "workers", "pass", "2 workers ask Redis")
	d.want(t, "listener", "none", "")

	d = doctor(t, strings.Replace(diagnosed, `"limit": 10`, `"limit": 11`, 1), "--envoy", s.Admin)
	d.want(t, "configuration", "warn", "another configuration")
	d.want(t, "redis", "pass", "a primary")
	d.want(t, "vectors", "pass", "")

	other := redistest.Start(t)
	d = doctor(t, diagnosed, "--redis", other.Addr, "--envoy", s.Admin)
	d.want(t, "endpoints", "warn", "not to --redis, "+other.Addr)
}

// TestDoctorOfWrongPort has it look at an Envoy whose cluster leads nowhere, while Redis runs elsewhere.
func TestDoctorOfWrongPort(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	nowhere := fmt.Sprint("127.0.0.1:", testenv.FreePort(t))
	s := start(t, diagnosed, envoytest.Options{Redis: []string{nowhere}, Dynamic: true})
	const open = "wasmcustom.sluice.redis.state.open.breaker_workers"
	requests := startLoad(t, 16, s.URL) // on so many connections that each worker has one
	testenv.Wait(t, time.Minute, func() error { return atLeast(int(s.Stats(open)[open]), 1, "workers do not ask Redis") })
	requests.stop()
	d := doctor(t, diagnosed, "--redis", redis.Addr, "--envoy", s.Admin)
	testenv.Same(t, "exit code", d.code, 1)
	d.want(t, "workers", "fail", "of 2 workers do not ask Redis: unreachable")
	d.want(t, "endpoints", "fail", nowhere+": none of")
	d.want(t, "redis", "pass", "")
	d = doctor(t, diagnosed, "--envoy", s.Admin)
	d.want(t, "redis", "fail", nowhere)

	missing := strings.Replace(diagnosed, `"cluster": "redis"`, `"cluster": "redes"`, 1)
	testenv.Same(t, "that Envoy takes it", s.Reload(missing, nil), true)
	d = doctor(t, missing, "--redis", redis.Addr, "--envoy", s.Admin)
	d.want(t, "cluster", "fail", `no cluster "redes"`)
	d.want(t, "bridge", "none", "")
	d.want(t, "endpoints", "none", "")
}

// TestDoctorOfMatcher has it look at an Envoy that asks through a relay, and whose stats_matcher leaves the
// plugin's metrics out.
func TestDoctorOfMatcher(t *testing.T) {
	t.Parallel()
	relay := envoytest.NewRelay(t, redistest.Start(t).Addr, nil)
	s := start(t, diagnosed, envoytest.Options{Edit: func(c *envoyconf.Config) {
		envoytest.Relayed(c, "redis", relay.Addr)
		c.Set("stats_config/stats_matcher", map[string]any{
			"inclusion_list": map[string]any{"patterns": []any{map[string]any{"prefix": "server."}}},
		})
	}})
	d := doctor(t, diagnosed, "--envoy", s.Admin)
	d.want(t, "endpoints", "pass", "leads to "+relay.Addr+", a relay")
	d.want(t, "metrics", "warn", "no metric of Sluice")
	d.want(t, "stats_matcher", "warn", "leaves out metrics of Sluice")
	d.want(t, "stats_tags", "none", "")
}
