package deploy_test

import (
	"encoding/base64"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/bridge"
	"github.com/sluiceproxy/sluice/cmd/sluice/render"
	"github.com/sluiceproxy/sluice/deploy"
	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(testenv.Root(t), name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func parse(t *testing.T, text string) *envoyconf.Config {
	t.Helper()
	c, err := envoyconf.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// fields are the format of the access log that docs/observability.md shows.
func fields(t *testing.T) any {
	t.Helper()
	_, rest, _ := strings.Cut(read(t, "docs/observability.md"), "```yaml\nlog_format:\n")
	block, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("docs/observability.md has no log_format")
	}
	return parse(t, "log_format:\n"+block).Get("log_format/json_format")
}

// rendered are the resources that a command renders of deploy/chart, by kind and name.
func rendered(t *testing.T, run func(*render.Options) (render.Result, error)) map[string]*envoyconf.Config {
	t.Helper()
	result, err := run(&render.Options{
		Plugin: []byte(`{"rules": [{"name": "a", "limits": [{"algorithm": "gcra", "limit": 1, "window": "1s"}]}]}`),
		Image:  "oci://r/s:1", Redis: []string{"redis:6379"}, App: "a", Gateway: "g", Listener: "l", Bootstrap: true,
		For: render.RelayKubernetes,
	})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*envoyconf.Config{}
	for document := range strings.SplitSeq(string(result.YAML), "\n---\n") {
		c := parse(t, document)
		all[c.Get("kind").(string)+"/"+c.Get("metadata/name").(string)] = c
	}
	return all
}

// TestOneSource: the labels of the metrics are those of envoy.yaml, and the fields of the
// access log those of docs/observability.md, in everything that is deployed.
func TestOneSource(t *testing.T) {
	t.Parallel()
	labels := parse(t, read(t, "envoy.yaml")).Get("stats_config")
	log := fields(t)
	const format = envoyconf.ConnectionManager + "/access_log/0/typed_config/log_format/json_format"
	type copied struct {
		what      string
		got, want any
	}
	var copies []copied
	names, err := fs.Glob(deploy.Files, "envoy/*.yaml")
	if err != nil || len(names) < 7 {
		t.Fatalf("%d files in deploy/envoy, %v", len(names), err)
	}
	for _, name := range append(names, "relay/limiter.yaml") {
		c := parse(t, read(t, path.Join("deploy", name)))
		copies = append(
			copies,
			copied{name + ": stats_config", c.Get("stats_config"), labels},
			copied{name + ": log", c.Get(format), log},
		)
	}
	istio, gateway := rendered(t, render.Istio), rendered(t, render.EnvoyGateway)
	merged := parse(t, istio["ConfigMap/sluice-bootstrap"].Get("data/custom_bootstrap.json").(string))
	merged.Delete("stats_config/stats_matcher")
	proxy := gateway["EnvoyProxy/sluice"]
	bootstrap := parse(t, proxy.Get("spec/bootstrap/value").(string))
	copies = append(
		copies,
		copied{"Istio's bootstrap", merged.Get("stats_config"), labels},
		copied{"the EnvoyProxy's bootstrap", bootstrap.Get("stats_config"), labels},
		copied{"the EnvoyProxy's log", proxy.Get("spec/telemetry/accessLog/settings/0/format/json"), log},
	)
	for _, context := range []string{"0", "1"} {
		const patch = "/patch/value/typed_config/access_log/0/typed_config/log_format/json_format"
		filter := istio["EnvoyFilter/sluice-log"]
		copies = append(copies, copied{"Istio's log, " + context, filter.Get("spec/configPatches/" + context + patch), log})
	}
	for _, c := range copies {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%s is\n%v, want\n%v", c.what, c.got, c.want)
		}
	}
}

// TestOneBridge: the bridge in everything that is deployed is the one of this repository, inline.
func TestOneBridge(t *testing.T) {
	t.Parallel()
	code := regexp.MustCompile(`(?m)vm_id: sluice-bridge\n *runtime: envoy\.wasm\.runtime\.v8\n(?: *#.*\n)* *(code: .*)`)
	want := "code: {local: {inline_bytes: " + base64.StdEncoding.EncodeToString(bridge.Wasm) + "}}"
	files := map[string]string{"envoy.yaml": read(t, "envoy.yaml")}
	for _, pattern := range []string{"*/*.yaml", "chart/templates/*"} {
		names, err := fs.Glob(deploy.Files, pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			files["deploy/"+name] = read(t, "deploy/"+name)
		}
	}
	bridges := 0
	for name, text := range files {
		found := code.FindAllStringSubmatch(text, -1)
		named := strings.Count(text, "vm_id: sluice-bridge")
		testenv.Same(t, name+": filters that are named as the bridge", named, len(found))
		bridges += len(found)
		for _, f := range found {
			if f[1] != want {
				t.Errorf("%s has %.60s...\nwant %.60s... (make bridge)", name, f[1], want)
			}
		}
	}
	testenv.Same(t, "bridges in what ships", bridges, 9)
}

// user is the ACL user that a file describes in its first lines.
func user(t *testing.T, name string) string {
	t.Helper()
	_, rest, _ := strings.Cut(read(t, name), "ACL SETUSER ")
	line, _, _ := strings.Cut(rest, "\n")
	return line
}

// TestOneUser: a relay needs the same rights in Redis as a limiter that asks Redis itself.
func TestOneUser(t *testing.T) {
	t.Parallel()
	if direct, relay := user(t, "deploy/envoy/tls-acl.yaml"), user(t, "deploy/relay/relay.yaml"); direct == "" ||
		relay != direct {
		t.Errorf("the relay's user is %q, that of tls-acl.yaml %q", relay, direct)
	}
}

// TestOneRelay: the relay in Kubernetes is that of relay.yaml, but for what the mesh does, and for the
// password, which is a file there.
func TestOneRelay(t *testing.T) {
	t.Parallel()
	plain, inPod := parse(t, read(t, "deploy/relay/relay.yaml")), rendered(t, render.Relay)["ConfigMap/sluice-relay"]
	envoytest.Plain(plain)
	const options = "static_resources/clusters/redis/typed_extension_protocol_options/envoy.filters.network.redis_proxy"
	plain.Delete(options + "/auth_username")
	plain.Set(options+"/auth_password", map[string]any{"filename": "/etc/sluice/redis/password"})
	text, ok := inPod.Get("data/envoy.yaml").(string)
	if got, want := parse(t, text).Get(""), plain.Get(""); !ok || !reflect.DeepEqual(got, want) {
		t.Errorf("the relay in Kubernetes is\n%v, want\n%v", got, want)
	}
}

// TestRestricted: the restricted Pod Security Standard admits the relay's pods.
// https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted
func TestRestricted(t *testing.T) {
	t.Parallel()
	pod := rendered(t, render.Relay)["Deployment/sluice-relay"]
	const spec, secure = "spec/template/spec/", "containers/envoy/securityContext/"
	for field, want := range map[string]any{
		"securityContext/runAsNonRoot":        true,
		"securityContext/seccompProfile/type": "RuntimeDefault",
		secure + "allowPrivilegeEscalation":   false,
		secure + "readOnlyRootFilesystem":     true,
		secure + "capabilities":               map[string]any{"drop": []any{"ALL"}},
		"automountServiceAccountToken":        false,
	} {
		if got := pod.Get(spec + field); !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %v, want %v", field, got, want)
		}
	}
	var kinds []string // of volumes: no hostPath
	for _, volume := range pod.Get(spec + "volumes").([]any) {
		for kind := range volume.(map[string]any) {
			kinds = append(kinds, kind)
		}
	}
	slices.Sort(kinds)
	testenv.SameList(t, "volumes", slices.Compact(kinds), []string{"configMap", "name", "secret"})
	for field := range pod.Get("spec/template/spec").(map[string]any) {
		if strings.HasPrefix(field, "host") {
			t.Errorf("the pod has %s", field)
		}
	}
}

// TestNoImageFromElsewhere: what ships names no image but in a registry that is the user's.
func TestNoImageFromElsewhere(t *testing.T) {
	t.Parallel()
	image := regexp.MustCompile(`(?m)^\s*(?:- )?(?:image|url): *"?([^\s"{]*[/:][^\s"]*)`)
	seen := 0
	for _, pattern := range []string{"*/*.yaml", "chart/templates/*"} {
		names, err := filepath.Glob(filepath.Join(testenv.Root(t), "deploy", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, found := range image.FindAllStringSubmatch(string(text), -1) {
				seen++
				testenv.Same(t, name+": that "+found[1]+" is the user's",
					strings.HasPrefix(strings.TrimPrefix(found[1], "oci://"), "registry.example.com/"), true)
			}
		}
	}
	testenv.Same(t, "images", seen > 8, true)
}
