package render

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// compose is deploy/compose as docker compose reads it: by its own loader, which holds it against the
// schema of the specification. The containers themselves do not run in the tests.
func compose(t *testing.T) *types.Project {
	t.Helper()
	file := filepath.Join(testenv.Root(t), "deploy/compose/compose.yaml")
	project, err := loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir: filepath.Dir(file), ConfigFiles: []types.ConfigFile{{Filename: file}}, Environment: types.Mapping{},
	}, func(o *loader.Options) { o.SetProjectName("sluice", true) })
	testenv.OK(t, err)
	return project
}

// TestCompose: every container is hardened, whatever is mounted is there, and Envoy finds Redis and the
// upstream by the names of their services.
func TestCompose(t *testing.T) {
	project := compose(t)
	for name, s := range project.Services {
		testenv.Same(t, name+": read only", s.ReadOnly, true)
		testenv.SameList(t, name+": dropped", s.CapDrop, []string{"ALL"})
		testenv.SameList(t, name+": security", s.SecurityOpt, []string{"no-new-privileges:true"})
		testenv.Same(t, name+": that it has a user but root", s.User != "" && s.User != "0", true)
		for _, volume := range s.Volumes {
			if _, err := os.Stat(volume.Source); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			testenv.Same(t, name+": "+volume.Target+" is read only", volume.ReadOnly, true)
		}
		for _, port := range s.Ports {
			testenv.Same(t, name+": host address of "+port.Published, port.HostIP, "127.0.0.1")
		}
	}
	envoy := project.Services["envoy"]
	text := testenv.Read(t, mounted(t, envoy, "/etc/envoy/envoy.yaml"))
	for _, want := range []string{
		"address: redis, port_value: 6379", "address: upstream, port_value: 8080",
		"address: 0.0.0.0, port_value: 10000", "filename: /etc/envoy/sluice.wasm",
	} {
		testenv.Same(t, "that Envoy has "+want, strings.Contains(string(text), want), true)
	}
	testenv.Same(t, "the plugin", mounted(t, envoy, "/etc/envoy/sluice.wasm"),
		filepath.Join(testenv.Root(t), "build/sluice.wasm"))
}

// mounted is the file that a service has at a path.
func mounted(t *testing.T, s types.ServiceConfig, target string) string {
	t.Helper()
	for _, volume := range s.Volumes {
		if volume.Target == target {
			return volume.Source
		}
	}
	t.Fatalf("nothing is mounted at %s", target)
	return ""
}

// TestComposeUpstream: Envoy itself takes the upstream's configuration.
func TestComposeUpstream(t *testing.T) {
	file := filepath.Join(t.TempDir(), "upstream.yaml")
	testenv.OK(t, os.WriteFile(file, []byte(compose(t).Configs["upstream"].Content), 0o600))
	validate := exec.Command(testenv.Tool(t, "envoy"), "--mode", "validate", "--log-level", "warning", "-c", file)
	if out, err := validate.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
