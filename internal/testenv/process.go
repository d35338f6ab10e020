package testenv

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/process"
)

// Process is a program that runs during a test and ends with it.
type Process struct {
	*process.Process

	t   testing.TB
	log string // file of its output
}

// Await returns once the process is ready, which it is asked every few milliseconds. It
// fails the test at once when the process has ended, and after the limit.
func (p *Process) Await(limit time.Duration, ready func(context.Context) error) {
	p.t.Helper()
	if err := process.Await(p.t.Context(), limit, ready, p.Process); err != nil {
		p.t.Fatalf("%s: %v", strings.TrimSuffix(filepath.Base(p.log), ".log"), err)
	}
}

// AwaitLog returns once the process has printed a text.
func (p *Process) AwaitLog(limit time.Duration, text string) {
	p.t.Helper()
	p.Await(limit, func(context.Context) error {
		if !strings.Contains(p.Log(), text) {
			return fmt.Errorf("nothing printed %q", text)
		}
		return nil
	})
}

// Run starts a program with its output going to a file, which is shown if the
// test fails. It is killed when the test ends. The variables of env
// ("NAME=value") are added to the test's own.
func Run(t testing.TB, env []string, path string, args ...string) *Process {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), filepath.Base(path)+".log"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()

	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = file, file
	cmd.Env = append(os.Environ(), env...)
	started, err := process.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	p := &Process{Process: started, t: t, log: file.Name()}
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("%s %q printed:\n%s", path, args, p.Log())
		}
	})
	return p
}

// Log returns what the process has printed so far.
func (p *Process) Log() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// FreePort returns a TCP port of 127.0.0.1 on which nothing listens, and on
// whose neighbours at the given offsets nothing does either. Until the test
// ends no other call returns any of them, in this process or another.
func FreePort(t testing.TB, offsets ...int) int {
	t.Helper()
	port, release, err := process.FreePort(offsets...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	return port
}
