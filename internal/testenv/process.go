package testenv

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sluiceproxy/sluice/internal/process"
)

// Process is a program that runs beside a test and ends with it.
type Process struct {
	*process.Process

	log string // file of its output
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
	p := &Process{Process: started, log: file.Name()}
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
