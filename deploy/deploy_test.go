package deploy_test

import (
	"encoding/base64"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/bridge"
	"github.com/sluiceproxy/sluice/deploy"
	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestOneSource: the labels of the metrics are those of envoy.yaml, and the fields of the
// access log those of docs/observability.md, in every file for Envoy. mesh/render holds those of the chart.
func TestOneSource(t *testing.T) {
	t.Parallel()
	labels := envoytest.Parse(t, string(testenv.File(t, "envoy.yaml"))).Get("stats_config")
	_, rest, _ := strings.Cut(string(testenv.File(t, "docs/observability.md")), "```yaml\nlog_format:\n")
	block, _, ok := strings.Cut(rest, "```")
	testenv.Same(t, "that docs/observability.md has a log_format", ok, true)
	log := envoytest.Parse(t, "log_format:\n"+block).Get("log_format/json_format")
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
		c := envoytest.Parse(t, string(testenv.File(t, path.Join("deploy", name))))
		copies = append(
			copies,
			copied{name + ": stats_config", c.Get("stats_config"), labels},
			copied{name + ": log", c.Get(format), log},
		)
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
	files := map[string]string{"envoy.yaml": string(testenv.File(t, "envoy.yaml"))}
	for _, pattern := range []string{"*/*.yaml", "chart/templates/*"} {
		names, err := fs.Glob(os.DirFS(filepath.Join(testenv.Root(t), "deploy")), pattern)
		testenv.OK(t, err)
		for _, name := range names {
			files["deploy/"+name] = string(testenv.File(t, "deploy/"+name))
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

// TestOneUser: a relay needs the rights in Redis of a limiter that asks Redis itself, but for the choice of a
// database, which all limiters behind it share.
func TestOneUser(t *testing.T) {
	t.Parallel()
	user := regexp.MustCompile(`ACL SETUSER (.+)\n`)
	direct := user.FindStringSubmatch(string(testenv.File(t, "deploy/envoy/tls-acl.yaml")))
	relay := user.FindStringSubmatch(string(testenv.File(t, "deploy/relay/relay.yaml")))
	if direct == nil || relay == nil {
		t.Fatalf("the relay's user is %q, that of tls-acl.yaml %q", relay, direct)
	}
	testenv.Same(t, "the relay's user", relay[1], strings.Replace(direct[1], "+select ", "", 1))
}

// TestNoImageFromElsewhere: what ships names no image but in a registry that is the user's.
func TestNoImageFromElsewhere(t *testing.T) {
	t.Parallel()
	image := regexp.MustCompile(`(?m)^\s*(?:- )?(?:image|url): *"?([^\s"{]*[/:][^\s"]*)`)
	seen := 0
	for _, pattern := range []string{"*/*.yaml", "chart/templates/*"} {
		names, err := filepath.Glob(filepath.Join(testenv.Root(t), "deploy", pattern))
		testenv.OK(t, err)
		for _, name := range names {
			text := testenv.Read(t, name)
			for _, found := range image.FindAllStringSubmatch(string(text), -1) {
				seen++
				testenv.Same(t, name+": that "+found[1]+" is the user's",
					strings.HasPrefix(strings.TrimPrefix(found[1], "oci://"), "registry.example.com/"), true)
			}
		}
	}
	testenv.Same(t, "images", seen > 8, true)
}
