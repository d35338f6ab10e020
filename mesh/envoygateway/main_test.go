// Package envoygateway applies the very files of deploy/envoy-gateway to Envoy
// Gateway itself, with the values replaced, and has the Envoy that it starts
// limit requests by them. Its tests run one after another, as Envoy Gateway's
// ports are fixed.
package envoygateway

import (
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
)

var (
	programs string // the directory of the programs that build made
	image    string // where the plugin's image was pushed
)

func TestMain(m *testing.M) {
	// Set where the tests run; what they need was built outside, with a network.
	const inside = "SLUICE_TEST_PROGRAMS"
	run := func() (int, error) {
		dir, err := os.MkdirTemp("", "sluice")
		if err != nil {
			return 0, err
		}
		defer os.RemoveAll(dir)
		if err := build(dir); err != nil {
			return 0, err
		}
		return enter(inside + "=" + dir)
	}
	if programs = os.Getenv(inside); programs != "" {
		run = func() (int, error) { return withRegistry(m) }
	}
	code, err := run()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// build puts Envoy Gateway, which stays in Go's cache, and the command behind
// "make push" into a directory.
func build(dir string) error {
	tool := exec.Command("go", "tool", "-n", "envoy-gateway")
	tool.Stderr = os.Stderr
	path, err := tool.Output()
	if err != nil {
		return fmt.Errorf("go tool -n envoy-gateway: %w", err)
	}
	if err := os.Symlink(strings.TrimSpace(string(path)), filepath.Join(dir, "envoy-gateway")); err != nil {
		return err
	}
	command := exec.Command("go", "build", "-C", "../../tools/image", "-o", filepath.Join(dir, "image"), ".")
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("go build tools/image: %w\n%s", err, out)
	}
	return nil
}

// withRegistry runs the tests with a registry that has the plugin's image.
func withRegistry(m *testing.M) (code int, err error) {
	if err := loopback(); err != nil {
		return 0, fmt.Errorf("loopback interface: %w", err)
	}
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	image = strings.TrimPrefix(server.URL, "http://") + "/sluice:v1"
	if err := push("../../build/sluice.wasm", image); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

// push pushes a plugin as "make push" does.
func push(wasm, image string) error {
	out, err := exec.Command(filepath.Join(programs, "image"), "-wasm", wasm, "-push", image).CombinedOutput()
	if err != nil {
		return fmt.Errorf("push %s: %w\n%s", image, err, out)
	}
	return nil
}
