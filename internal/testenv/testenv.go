// Package testenv finds what tests need apart from Go: the tools that "make tools"
// installs, the plugin that "make build" builds, free ports, and processes
// that end with the test. What is missing fails the test; nothing is skipped.
package testenv

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/sluiceproxy/sluice/internal/process"
)

// module is the first line of the go.mod at the root; the go.mod files below
// it (tools, bench) are other modules.
const module = "module github.com/sluiceproxy/sluice\n"

// Root returns the directory of the repository the test runs in.
func Root(t testing.TB) string {
	t.Helper()
	start, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && bytes.HasPrefix(text, []byte(module)) {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatalf("no directory from %s upwards has the go.mod of Sluice", start)
		}
	}
}

// Read returns what a file holds.
func Read(t testing.TB, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// File returns what a file of the repository holds, by its path there.
func File(t testing.TB, name string) []byte {
	t.Helper()
	return Read(t, filepath.Join(Root(t), filepath.FromSlash(name)))
}

// Tool returns the path of a program such as "redis-server": the one that the
// environment variable of its name names (REDIS_SERVER), else the one in
// .tools/bin, else the one on PATH.
func Tool(t testing.TB, name string) string {
	t.Helper()
	path, err := process.Find(Root(t), name)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return path
}

// WasmPath returns the path of the built plugin: build/sluice.wasm, or what
// the environment variable SLUICE_WASM names.
func WasmPath(t testing.TB) string {
	t.Helper()
	path := os.Getenv("SLUICE_WASM")
	if path == "" {
		path = filepath.Join(Root(t), "build", "sluice.wasm")
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v: run \"make build\"", err)
	}
	return path
}

// Wasm returns the built plugin.
func Wasm(t testing.TB) []byte {
	t.Helper()
	return Read(t, WasmPath(t))
}

// Stride is how many cases of a long list a test advances at a time: 1, or 10 with -short, which
// "make quick" sets. Few of many like cases show most mistakes; the gate has them all.
func Stride() int {
	if testing.Short() {
		return 10
	}
	return 1
}
