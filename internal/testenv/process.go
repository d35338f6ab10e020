package testenv

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Process is a program that runs beside a test and ends with it.
type Process struct {
	cmd    *exec.Cmd
	log    string
	exited chan struct{}
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
	dieWithParent(cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &Process{cmd: cmd, log: file.Name(), exited: make(chan struct{})}
	go func() {
		defer close(p.exited)
		_ = cmd.Wait() // how it ended is for the test to judge
	}()
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("%s %q printed:\n%s", path, args, p.Log())
		}
	})
	return p
}

// Signal sends a signal, such as syscall.SIGSTOP.
func (p *Process) Signal(sig os.Signal) error { return p.cmd.Process.Signal(sig) }

// Kill ends the process at once, and returns when it has gone.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // the one error is that it has gone already
	<-p.exited
}

// Exited is closed when the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// PID returns the process's number.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Log returns what the process has printed so far.
func (p *Process) Log() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
