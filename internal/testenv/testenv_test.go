package testenv

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// recorder is a testing.TB that notes a failure.
type recorder struct {
	testing.TB

	message string
}

func (*recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) { r.message = fmt.Sprintf(format, args...) }

func (r *recorder) Fatalf(format string, args ...any) {
	r.message = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// fatal returns the message with which f fails its test, "" if it does not.
func fatal(t *testing.T, f func(testing.TB)) string {
	t.Helper()
	r := &recorder{TB: t}
	var group sync.WaitGroup
	group.Go(func() { f(r) })
	group.Wait()
	return r.message
}

func TestRoot(t *testing.T) {
	root := Root(t)
	if _, err := os.Stat(filepath.Join(root, "internal", "testenv", "testenv_test.go")); err != nil {
		t.Error(err)
	}
	t.Chdir(t.TempDir())
	if got := fatal(t, func(tb testing.TB) { Root(tb) }); !strings.Contains(got, "go.mod of Sluice") {
		t.Errorf("outside the repository: %q", got)
	}
}

func TestToolPrefersVariableThenToolsThenPath(t *testing.T) {
	root, path, script := t.TempDir(), t.TempDir(), []byte("#!/bin/sh\n")
	OK(t, os.WriteFile(filepath.Join(root, "go.mod"), []byte(module), 0o600))
	OK(t, os.MkdirAll(filepath.Join(root, ".tools", "bin"), 0o700))
	t.Chdir(root)
	t.Setenv("PATH", path)
	t.Setenv("SOME_TOOL", "")

	got := fatal(t, func(tb testing.TB) { Tool(tb, "some-tool") })
	if !strings.Contains(got, `"some-tool"`) || !strings.Contains(got, "make tools") {
		t.Errorf("without the tool: %q", got)
	}
	want := filepath.Join(path, "some-tool")
	OK(t, os.WriteFile(want, script, 0o755))
	if got := Tool(t, "some-tool"); got != want {
		t.Errorf("got %s, want that on PATH, %s", got, want)
	}
	want = filepath.Join(filepath.Join(root, ".tools", "bin"), "some-tool")
	OK(t, os.WriteFile(want, script, 0o755))
	if got := Tool(t, "some-tool"); got != want {
		t.Errorf("got %s, want that in .tools, %s", got, want)
	}
	want = filepath.Join(t.TempDir(), "other")
	OK(t, os.WriteFile(want, script, 0o755))
	t.Setenv("SOME_TOOL", want)
	if got := Tool(t, "some-tool"); got != want {
		t.Errorf("got %s, want that of the variable, %s", got, want)
	}
	t.Setenv("SOME_TOOL", filepath.Join(root, "absent"))
	if got := fatal(t, func(tb testing.TB) { Tool(tb, "some-tool") }); !strings.Contains(got, "SOME_TOOL") {
		t.Errorf("with a variable that names nothing: %q", got)
	}
}

func TestWasm(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.wasm")
	t.Setenv("SLUICE_WASM", path)
	if got := fatal(t, func(tb testing.TB) { Wasm(tb) }); !strings.Contains(got, "make build") {
		t.Errorf("without the file: %q", got)
	}
	OK(t, os.WriteFile(path, []byte("code"), 0o600))
	if got := string(Wasm(t)); got != "code" {
		t.Errorf("got %q, want the file's content", got)
	}
}

func TestFreePortsDiffer(t *testing.T) {
	t.Parallel()
	const offset = 10000
	var (
		mu    sync.Mutex
		seen  = map[int]bool{}
		group sync.WaitGroup
	)
	for range 8 {
		group.Go(func() {
			for range 50 {
				port := FreePort(t, offset)
				mu.Lock()
				if seen[port] || seen[port+offset] {
					t.Errorf("port %d or its neighbour was handed out twice", port)
				}
				seen[port], seen[port+offset] = true, true
				mu.Unlock()
			}
		})
	}
	group.Wait()
}

func TestClaimEndsWithTheTest(t *testing.T) {
	var port int
	t.Run("holder", func(t *testing.T) { port = FreePort(t) })
	c, err := net.ListenPacket("udp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatalf("port %d is still claimed: %v", port, err)
	}
	c.Close()
}
