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

// TestCompose: every container is hardened, whatever is mounted is there, and Envoy finds Redis and the
// upstream by the names of their services. Envoy itself takes the upstream's configuration. deploy/compose is read by
// docker compose's own loader, which holds it against the schema of the specification; no container runs.
func TestCompose(t *testing.T) {
	file := filepath.Join(testenv.Root(t), "deploy/compose/compose.yaml")
	project, err := loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir: filepath.Dir(file), ConfigFiles: []types.ConfigFile{{Filename: file}}, Environment: types.Mapping{},
	}, func(o *loader.Options) { o.SetProjectName("sluice", true) })
	testenv.OK(t, err)
	mounted := map[string]string{} // files of services, by service and path
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
			mounted[name+volume.Target] = volume.Source
		}
		for _, port := range s.Ports {
			testenv.Same(t, name+": host address of "+port.Published, port.HostIP, "127.0.0.1")
		}
	}
	text := testenv.Read(t, mounted["envoy/etc/envoy/envoy.yaml"])
	for _, want := range []string{
		"address: redis, port_value: 6379", "address: upstream, port_value: 8080",
		"address: 0.0.0.0, port_value: 10000", "filename: /etc/envoy/sluice.wasm",
	} {
		testenv.Same(t, "that Envoy has "+want, strings.Contains(string(text), want), true)
	}
	testenv.Same(t, "the plugin", mounted["envoy/etc/envoy/sluice.wasm"],
		filepath.Join(testenv.Root(t), "build/sluice.wasm"))
	upstream := filepath.Join(t.TempDir(), "upstream.yaml")
	testenv.OK(t, os.WriteFile(upstream, []byte(project.Configs["upstream"].Content), 0o600))
	validate := exec.Command(testenv.Tool(t, "envoy"), "--mode", "validate", "--log-level", "warning", "-c", upstream)
	if out, err := validate.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
