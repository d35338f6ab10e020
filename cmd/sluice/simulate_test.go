package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/cmd/sluice/simulate"
)

const simulated = `{"redis": {"cluster": "redis"}, "rules": [{"name": "a", "key": [{"header": "x-key"}], "limits": [` + aLimit + `]}]}`

func TestSimulate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	svg, html := filepath.Join(dir, "a.svg"), filepath.Join(dir, "a.html")
	r := execute(t, simulated, "simulate", "-c", "-", "--url", "http://h/", "-H", "x-key: {n}", "--rate", "50", "--duration", "4s",
		"--envoys", "2", "--redis-away", "1s-2s", "--svg", svg, "--html", html)
	if r.code != exitDone {
		t.Fatal(r.errors)
	}
	for _, want := range []string{"RULE  CHECKED", "gcra 10 in 1s", "commands a second", "let pass undecided", "LOG\n"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("no %q in\n%s", want, r.out)
		}
	}
	for _, name := range []string{svg, html} {
		if text, err := os.ReadFile(name); err != nil || !strings.Contains(string(text), "<svg") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSimulateExpressions has expressions say whom a rule counts, and what it takes.
func TestSimulateExpressions(t *testing.T) {
	t.Parallel()
	const plugin = `{"rules": [{"name": "a", "match": {"expr": "request.method == 'PUT'"}, "key": [{"expr": "request.headers['x-key']"}],
		"cost": {"expr": "5", "default": 1}, "limits": [{"algorithm": "fixed_window", "limit": 100, "window": "1d"}]}]}`
	for method, limited := range map[string]bool{"PUT": true, "GET": false} {
		r := execute(t, plugin, "simulate", "-c", "-", "-o", "json", "--url", "http://h/", "--method", method, "-H", "x-key: {n}",
			"--rate", "50", "--identities", "2", "--duration", "4s")
		if r.code != exitDone {
			t.Fatal(r.errors)
		}
		got := decode[simulate.Report](t, r)
		want := got.Requests
		if limited {
			want = 2 * 100 / 5
		}
		if got.Requests < 150 || got.Admitted != want {
			t.Errorf("%s: %d of %d admitted, want %d", method, got.Admitted, got.Requests, want)
		}
	}
}

func TestSimulateFiles(t *testing.T) {
	t.Parallel()
	traffic := write(t, "traffic.yaml", "duration: 2s\nclients:\n- {name: a, rate: 20, arrivals: even, url: http://h/, headers: {x-key: k}}\n")
	log := write(t, "access.log", `{"start_time": "2026-01-02T03:04:05Z", "method": "GET", "path": "/", "x-key": "k"}`+"\nnothing\n")
	for _, c := range []struct {
		name     string
		args     []string
		requests int64
		errors   string
	}{
		{"a description", []string{"--traffic", traffic}, 39, ""},
		{"an access log", []string{"--log", log}, 1, "note: 1 lines of " + log + " are not requests\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := execute(t, simulated, append([]string{"simulate", "-c", "-", "-o", "json"}, c.args...)...)
			if r.code != exitDone || r.errors != c.errors {
				t.Fatalf("exit code %d, %q", r.code, r.errors)
			}
			if got := decode[simulate.Report](t, r); got.Requests != c.requests {
				t.Errorf("%d requests, want %d", got.Requests, c.requests)
			}
		})
	}
}

func TestSimulateRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, args, errors string }{
		{"no traffic", "", "at least one of the flags in the group [traffic log url] is required"},
		{"two kinds of traffic", "--url http://h/ --log x", "none of the others can be"},
		{"no Envoy", "--url http://h/ --envoys 0", "--envoys and --workers: want at least 1 each"},
		{"no shard", "--url http://h/ --redis-shards 0", "--redis-shards: want at least 1"},
		{"no period", "--url http://h/ --redis-away 3s", `--redis-away: "3s" is not a period`},
		{"a period backwards", "--url http://h/ --redis-hangs 3s-2s", `--redis-hangs: "3s-2s" is not a period`},
		{"no URL", "--url h", `"h" is not a URL`},
		{"no header", "--url http://h/ -H x", `"x" is not a header`},
		{"no file", "--traffic /nowhere", "open /nowhere"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := execute(t, simulated, append([]string{"simulate", "-c", "-"}, strings.Fields(c.args)...)...)
			if r.code != exitUsage {
				t.Errorf("exit code %d, want %d", r.code, exitUsage)
			}
			if !strings.Contains(r.errors, c.errors) {
				t.Errorf("errors %s, want %s", r.errors, c.errors)
			}
		})
	}
}
