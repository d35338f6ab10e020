// Package process runs other programs: a Redis, an Envoy. None of them
// outlives it (on Linux, however it ends). Tests use it through internal/testenv.
package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Process is a program that was started.
type Process struct {
	cmd    *exec.Cmd
	exited chan struct{}
	err    error // how it ended, once exited is closed
}

// Start runs a command. What cmd.Stdout and cmd.Stderr are is up to the caller.
func Start(cmd *exec.Cmd) (*Process, error) {
	dieWithParent(cmd)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &Process{cmd: cmd, exited: make(chan struct{})}
	go func() {
		defer close(p.exited)
		p.err = cmd.Wait()
	}()
	return p, nil
}

// Exited is closed when the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Err waits for the end of the process and returns how it ended, as exec.Cmd.Wait
// does.
func (p *Process) Err() error {
	<-p.exited
	return p.err
}

// PID returns the number of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends a signal, such as syscall.SIGSTOP.
func (p *Process) Signal(sig os.Signal) error { return p.cmd.Process.Signal(sig) }

// Kill ends the process at once, and returns when it has gone.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // fails only if the process has gone already
	<-p.exited
}

// Stop asks the process to end, kills it if it has not done so after the limit,
// and returns when it has gone. It reports whether asking was enough.
func (p *Process) Stop(limit time.Duration) bool {
	_ = p.Signal(syscall.SIGTERM) // fails only if the process has gone already
	select {
	case <-p.exited:
		return true
	case <-time.After(limit):
		p.Kill()
		return false
	}
}

// ErrEnded is Await's error when a process has ended.
var ErrEnded = errors.New("it has ended")

// Await returns once ready reports nil, which it is asked every few milliseconds.
// It fails with ErrEnded when one of the processes ends, with the context's error
// when that is canceled, and with ready's last error after the limit.
func Await(ctx context.Context, limit time.Duration, ready func(context.Context) error, processes ...*Process) error {
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ready(within)
		if err == nil {
			return nil
		}
		for _, p := range processes {
			if p.Ended() {
				return ErrEnded
			}
		}
		select {
		case <-within.Done():
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("not ready after %v: %w", limit, err)
		case <-tick.C:
		}
	}
}

// Ended reports whether the process has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}
