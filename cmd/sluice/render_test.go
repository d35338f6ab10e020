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
	localPlugin = `{"rules": [{"name": "a", "mode": "off", "limits": [` + aLimit + `]}]}`
	redisPlugin = `{"redis": {"cluster": "counters", "key_prefix": "edge"}, ` +
		`"rules": [{"name": "a", "limits": [` + aLimit + `]}]}`
	secretPlugin = `{"redis": {"cluster": "counters", "username": "edge", "password": "hunter2"}, ` +
		`"rules": [{"name": "a", "limits": [` + aLimit + `]}]}`
)

// renderings are command lines that use every flag; package render has what each of them changes.
var renderings = []struct {
	name, plugin string
	args         string
	contains     []string
	lacks        []string
	notes        string
}{
	{
		name: "Envoy with Redis", plugin: localPlugin,
		args: "envoy --redis 10.0.0.7:7000 --upstream app:80 --listen 127.0.0.1:81 --admin 127.0.0.1:82 --wasm /a/b.wasm",
		contains: []string{
			`"redis": {"cluster": "redis"},"rules"`, "address: 10.0.0.7, port_value: 7000", "address: app, port_value: 80",
			"address: 127.0.0.1, port_value: 81", "address: 127.0.0.1, port_value: 82", "{filename: /a/b.wasm}",
		},
		lacks: []string{"/etc/envoy", "port_value: 6379", "port_value: 8080"},
	},
	{
		name: "a Redis Cluster with a password", plugin: secretPlugin,
		args: "envoy --redis r0:6379,r1:6380 --redis-cluster --redis-password-env PASSWORD --redis-tls",
		contains: []string{
			`"redis": {"cluster": "redis"}`, "address: r0, port_value: 6379", "address: r1, port_value: 6380",
			"auth_username: {inline_string: \"edge\"}", "auth_password: {environment_variable: PASSWORD}", "sni: r0",
		},
		lacks: []string{"hunter2", "host_env_keys", "redis-0"},
		notes: "note: redis.password is not written into the file: it is taken from the environment variable PASSWORD\n",
	},
}

func TestRender(t *testing.T) {
	t.Parallel()
	for _, c := range renderings {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := execute(t, c.plugin, append([]string{"render", "-c", "-"}, strings.Fields(c.args)...)...)
			if r.code != console.Done {
				t.Fatalf("exit code %d: %s", r.code, r.errors)
			}
			for _, want := range c.contains {
				if !strings.Contains(r.out, want) {
					t.Errorf("the file lacks %s", want)
				}
			}
			for _, unwanted := range c.lacks {
				if strings.Contains(r.out, unwanted) {
					t.Errorf("the file has %s", unwanted)
				}
			}
			expectNotes(t, r, c.notes)
			if v := execute(t, r.out, "validate", "-"); v.code != console.Done {
				t.Errorf("validate says\n%s", v.out)
			}
			if t.Failed() {
				t.Log(r.out)
			}
		})
	}
}

func TestRenderRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, plugin, args string
		code               int
		errors             string
	}{
		{
			name: "mistakes", plugin: `{"rules": []}`, args: "envoy",
			code: console.Refused, errors: "- has mistakes:\n  rules: ",
		},
		{
			name: "a role", plugin: `{"role": "bridge"}`, args: "envoy",
			code: console.Refused, errors: "- has mistakes:\n  role: ",
		},
		{
			name: "no address of Redis", plugin: redisPlugin, args: "envoy",
			code: console.Misused, errors: `the configuration has "redis", so its address is needed: --redis host:port`,
		},
		{
			name: "Istio", plugin: redisPlugin, args: "istio --image oci://r/s:1",
			code: console.Misused, errors: "helm template sluice deploy/chart --set platform=istio",
		},
		{
			name: "an address with lines of YAML", plugin: redisPlugin, args: "envoy --redis=h\x00evil:1",
			code: console.Misused, errors: `--redis: "h\x00evil:1" is not an address`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := execute(t, c.plugin, append(strings.Fields("render "+c.args), "-c", "-")...)
			if r.code != c.code {
				t.Errorf("exit code %d, want %d", r.code, c.code)
			}
			if !strings.Contains(r.errors, c.errors) {
				t.Errorf("errors %s, want some with %s", r.errors, c.errors)
			}
		})
	}
}

// TestRenderRefusesLines holds that nothing after the end of a line is taken, or lost.
func TestRenderRefusesLines(t *testing.T) {
	t.Parallel()
	r := execute(t, redisPlugin, "render", "envoy", "-c", "-", "--redis", "h:1\n      evil: yes")
	if want := `--redis: "h:1\n      evil: yes" is not an address`; r.code != console.Misused ||
		!strings.Contains(r.errors, want) {
		t.Errorf("exit code %d, %s; want %s", r.code, r.errors, want)
	}
}

// TestEnvoyAccepts has Envoy itself read the rendered files.
func TestEnvoyAccepts(t *testing.T) {
	t.Parallel()
	envoy, wasm := testenv.Tool(t, "envoy"), testenv.WasmPath(t)
	ca, _ := testenv.Certificate(t)
	for _, c := range []struct{ name, plugin, args string }{
		{"no Redis", localPlugin, ""},
		{"one Redis", redisPlugin, "--redis 127.0.0.1:6379"},
		{"TLS and a password", secretPlugin, "--redis redis:6379 --redis-tls --redis-ca " + ca},
		{"a Redis Cluster", secretPlugin, "--redis 127.0.0.1:7000,127.0.0.1:7001 --redis-cluster --redis-tls --redis-ca " +
			"" + ca},
		{"a primary with replicas", redisPlugin, "--redis r0:6379,r1:6379"},
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

// A file that render did not write stays as it is; one that it wrote is written anew.
func TestRenderKeepsOtherFiles(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "envoy.yaml")
	render := func() result {
		return execute(t, localPlugin, "render", "envoy", "-c", "-", "--wasm", "x.wasm", "--out", file)
	}
	if r := render(); r.code != console.Done {
		t.Fatalf("a new file: %s", r.errors)
	}
	if r := render(); r.code != console.Done {
		t.Errorf("a file of ours: %s", r.errors)
	}
	if err := os.WriteFile(file, []byte("static_resources: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := render()
	if r.code != console.Misused || !strings.Contains(r.errors, "want another name") {
		t.Errorf("exit %d: %s", r.code, r.errors)
	}
	if text, _ := os.ReadFile(file); string(text) != "static_resources: {}\n" {
		t.Errorf("it holds %s", text)
	}
}

// TestCookbookForms writes every recipe of the cookbook as the page says, and has validate accept it. mesh/render makes
// the resources of Kubernetes.
func TestCookbookForms(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(testenv.Root(t), "docs/cookbook.md"))
	if err != nil {
		t.Fatal(err)
	}
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
