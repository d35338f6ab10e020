package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

const (
	redisPlugin = `{"redis": {"cluster": "counters", "key_prefix": "edge"}, ` +
		`"rules": [{"name": "a", "limits": [` + aLimit + `]}]}`
	secretPlugin = `{"redis": {"cluster": "counters", "username": "edge", "password": "hunter2"}, ` +
		`"rules": [{"name": "a", "limits": [` + aLimit + `]}]}`
)

// TestRenderRefusesLines holds that nothing after the end of a line is taken, or lost.
func TestRenderRefusesLines(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"h:1\n      evil: yes": `--redis: "h:1\n      evil: yes" is not an address`,
		"h\x00evil:1":          `--redis: "h\x00evil:1" is not an address`,
	} {
		r := execute(t, redisPlugin, "render", "envoy", "-c", "-", "--redis", address)
		if r.code != console.Misused || !strings.Contains(r.errors, want) {
			t.Errorf("exit code %d, %s; want %s", r.code, r.errors, want)
		}
	}
}

// TestEnvoyAccepts has Envoy itself read rendered files with a password. deploy/envoy runs the others.
func TestEnvoyAccepts(t *testing.T) {
	t.Parallel()
	envoy, wasm := testenv.Tool(t, "envoy"), testenv.WasmPath(t)
	ca, _ := testenv.Certificate(t)
	for _, c := range []struct{ name, plugin, args string }{
		{"TLS and a password", secretPlugin, "--redis redis:6379 --redis-tls --redis-ca " + ca},
		{"a Redis Cluster", secretPlugin, "--redis 127.0.0.1:7000,127.0.0.1:7001 --redis-cluster --redis-tls --redis-ca " +
			"" + ca},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "envoy.yaml")
			args := append(strings.Fields("render envoy -c - --wasm "+wasm+" --out "+file), strings.Fields(c.args)...)
			if r := execute(t, c.plugin, args...); r.code != console.Done {
				t.Fatal(r.errors)
			}
			validate := exec.Command(envoy, "--mode", "validate", "--log-level", "warning", "-c", file)
			validate.Env = append(os.Environ(), "REDIS_PASSWORD=x")
			if out, err := validate.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// TestCookbookForms writes every recipe of the cookbook as the page says, and has validate accept it. mesh/render makes
// the resources of Kubernetes.
func TestCookbookForms(t *testing.T) {
	t.Parallel()
	page := testenv.File(t, "docs/cookbook.md")
	forms := regexp.MustCompile("(?ms)^```sh forms\n(.*?)^```").FindSubmatch(page)
	recipes := regexp.MustCompile("(?ms)^```json\n(.*?)^```").FindAllSubmatch(page, -1)
	if forms == nil || len(recipes) < 20 {
		t.Fatalf("forms %q, %d recipes", forms, len(recipes))
	}
	commands := strings.Split(strings.TrimSpace(string(forms[1])), "\n")
	testenv.Same(t, "forms", len(commands), 1)
	for _, recipe := range recipes {
		for _, command := range commands {
			args, _, _ := strings.Cut(command, " --out ")
			args = strings.NewReplacer("sluice ", "", "plugin.json", "-", "$PWD/", "/").Replace(args)
			r := execute(t, string(recipe[1]), strings.Fields(args)...)
			if r.code != console.Done {
				t.Errorf("%s: %s of\n%s", command, r.errors, recipe[1])
				continue
			}
			// Which filter has to come before Sluice, the recipe says.
			for line := range strings.Lines(execute(t, r.out, "validate", "-").out) {
				if !acceptable.MatchString(line) {
					t.Errorf("%s: validate says\n%s of\n%s", command, line, recipe[1])
				}
			}
		}
	}
}

// acceptable are the findings that validate may have about a recipe.
var acceptable = regexp.MustCompile(`^-:\d+: (ok, |note: |warning: |.*: no filter before Sluice writes the metadata )`)

// TestEnvoyAcceptsRelay has Envoy itself read rendered relays.
func TestEnvoyAcceptsRelay(t *testing.T) {
	t.Parallel()
	cert, key := testenv.Certificate(t)
	place := strings.NewReplacer("/etc/envoy/relay.crt", cert, "/etc/envoy/mesh-ca.crt", cert, "/etc/envoy/relay.key", key)
	const usual = "--redis 127.0.0.1:1 --redis-user u --allow spiffe://a/b "
	for name, args := range map[string]string{
		"one server":      usual,
		"TLS":             usual + "--redis-tls --redis-ca " + cert,
		"a replica":       "--redis 127.0.0.1:1,127.0.0.1:2 --allow spiffe://a/b",
		"a Redis Cluster": usual + "--redis-cluster",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := execute(t, "", append([]string{"render", "relay"}, strings.Fields(args)...)...)
			if r.code != console.Done {
				t.Fatal(r.errors)
			}
			file := filepath.Join(t.TempDir(), "envoy.yaml")
			testenv.OK(t, os.WriteFile(file, []byte(place.Replace(r.out)), 0o600))
			validate := exec.Command(testenv.Tool(t, "envoy"), "--mode", "validate", "--log-level", "warning", "-c", file)
			validate.Env = append(os.Environ(), "REDIS_PASSWORD=x")
			if out, err := validate.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
