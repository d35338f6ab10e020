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

// envoyVersion is the version that Envoy Gateway takes the tests' Envoy for.
const envoyVersion = "1.40.0"

// start starts Envoy Gateway with the resources of testdata and others. The EnvoyProxy's spec has fields; without any
// there is no access log. Envoy Gateway ends Envoy when the test ends.
func start(t *testing.T, resources string, fields ...string) *gateway {
	t.Helper()
	if fields == nil {
		fields = []string{"telemetry: {accessLog: {disable: true}}"}
	}
	port := testenv.FreePort(t)
	for port >= 18_000 && port < 20_000 { // Envoy Gateway will take 18000 to 18002, 19000 and 19001 itself
		port = testenv.FreePort(t)
	}
	home := t.TempDir()
	g := &gateway{Client: meshtest.Client{T: t, URL: fmt.Sprintf("http://127.0.0.1:%d", port)}, home: home}
	testenv.OK(t, os.Mkdir(filepath.Join(home, "resources"), 0o700))
	// Where Envoy Gateway would download Envoy to.
	download := filepath.Join(home, "data", "envoy-versions", envoyVersion, "bin")
	testenv.OK(t, os.MkdirAll(download, 0o700))
	testenv.OK(t, os.Symlink(testenv.Tool(t, "envoy"), filepath.Join(download, "envoy")))
	program := filepath.Join(programs, "envoy-gateway")
	<-testenv.Run(t, nil, program, "certgen", "--local", "--config-home", filepath.Join(home, "config")).Exited()

	_, upstream, err := net.SplitHostPort(envoytest.NewUpstream(t, nil).Addr)
	testenv.OK(t, err)
	certs := filepath.Join(home, "config", "certs", "envoy")
	around := map[string]any{
		"ENVOY": envoyVersion, "OBSERVE": strings.Join(fields, "\n  "), "PORT": port, "UPSTREAM": upstream, "CERTS": certs,
	}
	for name, file := range map[string]string{"CERTIFICATE": "tls.crt", "KEY": "tls.key", "CA": "ca.crt"} {
		around[name] = base64.StdEncoding.EncodeToString(testenv.Read(t, filepath.Join(certs, file)))
	}
	own := filepath.Join(home, "envoy-gateway.yaml")
	for file, text := range map[string]string{
		filepath.Join(home, "resources", "around.yaml"): meshtest.Fill(t, "testdata/gateway.yaml", around),
		own: meshtest.Fill(t, "testdata/envoy-gateway.yaml", map[string]any{"HOME": home}),
	} {
		testenv.OK(t, os.WriteFile(file, []byte(text), 0o600))
	}
	g.apply(resources)
	g.Process = testenv.Run(t, []string{"HOME=" + home}, program, "server", "--config-path", own)
	t.Cleanup(func() {
		if err := g.Signal(syscall.SIGTERM); err != nil {
			t.Errorf("Envoy Gateway has ended by itself: %v", err)
		}
		<-g.Exited()
	})
	return g
}

// apply replaces the resources that are tested in one step, as kubectl does.
func (g *gateway) apply(resources string) {
	g.T.Helper()
	path := filepath.Join(g.home, "sluice.yaml")
	testenv.OK(g.T, os.WriteFile(path, []byte(resources), 0o600))
	testenv.OK(g.T, os.Rename(path, filepath.Join(g.home, "resources", "sluice.yaml")))
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
