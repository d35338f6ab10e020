package envoygateway

import (
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/mesh/meshtest"
)

// gateway is Envoy Gateway with the one Envoy that it starts, whose output it
// passes on.
type gateway struct {
	meshtest.Client
	*testenv.Process

	home string // the directory of all its files
}

// start starts Envoy Gateway with the resources of testdata and others.
func start(t *testing.T, resources string) *gateway {
	t.Helper()
	return startObserved(t, resources, "telemetry: {accessLog: {disable: true}}")
}

// freePort returns a port that Envoy Gateway, which has not started yet, does not take for servers
// of its own: 18000 to 18002, 19000 and 19001.
func freePort(t *testing.T) int {
	for {
		if port := testenv.FreePort(t); port < 18_000 || port >= 20_000 {
			return port
		}
	}
}

// startObserved does it with fields of the EnvoyProxy's spec.
func startObserved(t *testing.T, resources, observe string) *gateway {
	t.Helper()
	port := freePort(t)
	g := &gateway{Client: meshtest.Client{T: t, URL: fmt.Sprintf("http://127.0.0.1:%d", port)}, home: t.TempDir()}
	testenv.OK(t, os.Mkdir(g.path("resources"), 0o700))
	g.adoptEnvoy()
	program := filepath.Join(programs, "envoy-gateway")
	<-testenv.Run(t, nil, program, "certgen", "--local", "--config-home", g.path("config")).Exited()

	_, upstream, err := net.SplitHostPort(envoytest.NewUpstream(t, nil).Addr)
	testenv.OK(t, err)
	certs := g.path("config", "certs", "envoy")
	g.write("around.yaml", meshtest.Fill(t, "testdata/gateway.yaml", map[string]any{
		"ENVOY": envoyVersion, "OBSERVE": observe, "PORT": port, "UPSTREAM": upstream, "CERTS": certs,
		"CERTIFICATE": encoded(t, certs, "tls.crt"), "KEY": encoded(t, certs, "tls.key"), "CA": encoded(t, certs, "ca.crt"),
	}))
	g.apply(resources)
	g.Process = testenv.Run(t, []string{"HOME=" + g.home}, program, "server", "--config-path", g.config())
	t.Cleanup(g.stop)
	return g
}

// stop ends Envoy Gateway, which ends Envoy.
func (g *gateway) stop() {
	if err := g.Signal(syscall.SIGTERM); err != nil {
		g.T.Errorf("Envoy Gateway has ended by itself: %v", err)
	}
	<-g.Exited()
}

func (g *gateway) path(elements ...string) string {
	return filepath.Join(append([]string{g.home}, elements...)...)
}

// envoyVersion is the version that Envoy Gateway takes the tests' Envoy for.
const envoyVersion = "1.40.0"

// adoptEnvoy puts Envoy where Envoy Gateway would download it to.
func (g *gateway) adoptEnvoy() {
	g.T.Helper()
	dir := g.path("data", "envoy-versions", envoyVersion, "bin")
	testenv.OK(g.T, os.MkdirAll(dir, 0o700))
	testenv.OK(g.T, os.Symlink(testenv.Tool(g.T, "envoy"), filepath.Join(dir, "envoy")))
}

// config writes Envoy Gateway's own configuration.
func (g *gateway) config() string {
	g.T.Helper()
	text := meshtest.Fill(g.T, "testdata/envoy-gateway.yaml", map[string]any{"HOME": g.home})
	path := g.path("envoy-gateway.yaml")
	testenv.OK(g.T, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// encoded is a file as the data of a Secret has it.
func encoded(t *testing.T, dir, name string) string {
	t.Helper()
	text := testenv.Read(t, filepath.Join(dir, name))
	return base64.StdEncoding.EncodeToString(text)
}

// apply replaces the resources that are tested, as kubectl does.
func (g *gateway) apply(resources string) {
	g.T.Helper()
	g.write("sluice.yaml", resources)
}

// write puts a file among the resources in one step.
func (g *gateway) write(name, text string) {
	g.T.Helper()
	path := g.path(name)
	testenv.OK(g.T, os.WriteFile(path, []byte(text), 0o600))
	testenv.OK(g.T, os.Rename(path, g.path("resources", name)))
}

// awaitLog waits for Envoy Gateway or Envoy to print a text.
func (g *gateway) awaitLog(text string) {
	g.T.Helper()
	testenv.Wait(g.T, meshtest.Patience, func() error {
		if !strings.Contains(g.Log(), text) {
			return fmt.Errorf("nothing printed %q", text)
		}
		return nil
	})
}

// conditions returns the conditions of a policy by type, as Envoy Gateway last
// printed them: "True", or what is wrong.
func (g *gateway) conditions(kind, name string) map[string]string {
	g.T.Helper()
	all := map[string]string{}
	for part := range strings.SplitSeq(g.Log(), "Got new status for "+kind+"\n") {
		text, after, _ := strings.Cut(part, "\n\t{")
		if !strings.HasPrefix(after, fmt.Sprintf(`"runner": "provider", "key": "default/%s"`, name)) {
			continue
		}
		var status struct {
			Ancestors []struct {
				Conditions []struct{ Type, Status, Message string }
			}
		}
		testenv.OK(g.T, yaml.Unmarshal([]byte(text), &status))
		clear(all)
		for _, ancestor := range status.Ancestors {
			for _, c := range ancestor.Conditions {
				all[c.Type] = c.Status
				if c.Status != "True" {
					all[c.Type] = c.Message
				}
			}
		}
	}
	return all
}
