package wasmhost

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

var (
	guestsMu sync.Mutex
	guests   = map[string][]byte{}
)

// hostCallsOfPlugin are declarations of host calls.
const hostCallsOfPlugin = "host_imports_tinygo.go"

// guest builds testdata/guest with the plugin's own declarations of the host calls, once for each
// set of build tags. The plugin is built with custommalloc.
func guest(t testing.TB, tags string) []byte {
	t.Helper()
	guestsMu.Lock()
	defer guestsMu.Unlock()
	if guests[tags] != nil {
		return guests[tags]
	}
	root, file := testenv.Root(t), filepath.Join(t.TempDir(), "guest.wasm")
	build := exec.Command(testenv.Tool(t, "tinygo"), "build", "-target="+filepath.Join(root, ".tools", "proxywasm.json"),
		"-buildmode=c-shared", "-tags", tags, "-opt=2", "-no-debug", "-o", file, ".")
	build.Dir = t.TempDir()
	calls, err := os.ReadFile(filepath.Join(root, "plugin", hostCallsOfPlugin))
	err = errors.Join(err, os.CopyFS(build.Dir, os.DirFS("testdata/guest")),
		os.WriteFile(filepath.Join(build.Dir, hostCallsOfPlugin), calls, 0o600),
		os.WriteFile(filepath.Join(build.Dir, "go.mod"), []byte("module guest\n\ngo 1.26\n"), 0o600))
	testenv.OK(t, err)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build.Args, err, out)
	}
	code := testenv.Read(t, file)
	guests[tags] = code
	return code
}

// startGuest starts a guest that does what the script says.
func startGuest(t testing.TB, options Options, script string) (*Host, *Plugin) {
	t.Helper()
	options.Wasm = guest(t, "custommalloc")
	h := Start(t, options)
	return h, startPlugin(t, h, script)
}

func startPlugin(t testing.TB, h *Host, script string) *Plugin {
	t.Helper()
	p, err := h.StartPlugin(script)
	testenv.OK(t, err)
	return p
}

// tell runs one section of a script in a stream of its own.
func tell(p *Plugin, path string) *Stream {
	s := p.NewStream()
	s.RequestHeaders(Request("GET", path), true)
	return s
}

// logged is what the guest has logged since a test has emptied the log.
func logged(h *Host) (lines []string) {
	for _, line := range h.Logs {
		lines = append(lines, strings.TrimRight(line.Text, " "))
	}
	return lines
}

var indentation = regexp.MustCompile(`\n\s+`)

// expectLog takes what the guest has logged. How lines are indented is no matter.
func expectLog(t *testing.T, h *Host, log string) {
	t.Helper()
	got, want := strings.TrimSpace(strings.Join(logged(h), "\n")), strings.TrimSpace(log)
	h.Logs = nil
	testenv.Same(t, "the guest's log", indentation.ReplaceAllString(got, "\n"), indentation.ReplaceAllString(want, "\n"))
}
