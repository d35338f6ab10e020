package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"time"

	system "github.com/shirou/gopsutil/v4/process"

	"github.com/sluiceproxy/sluice/internal/process"
)

const (
	// startLimit bounds the wait for a process to serve, stopLimit that for its
	// end; Envoy compiles the plugin at its start.
	startLimit = 60 * time.Second
	stopLimit  = 5 * time.Second
	// countedStartLimit is the same where callgrind counts its instructions.
	countedStartLimit = 20 * time.Minute
)

// subprocess is a program that takes part in the benchmark.
type subprocess struct {
	*process.Logged
	limit time.Duration // that await waits
}

// under is a command by which programs are run, with its options, and variables ("NAME=value") for it;
// empty: they run by themselves.
type under struct{ command, env []string }

// unwatched are programs that run by themselves.
var unwatched under

// timeout is how long Envoy waits for an answer about a request: as Sluice does by default, or as
// long as it takes.
func (u under) timeout() time.Duration {
	if len(u.command) > 0 {
		return 20 * time.Second
	}
	return 50 * time.Millisecond
}

// startProcess runs a program in dir. The variables of env ("NAME=value") are added to
// this process's own. The kernel kills it should the benchmark die.
func (u under) startProcess(dir, name string, env []string, program string, args ...string) (*subprocess, error) {
	path, err := process.Find("..", program)
	if err != nil {
		return nil, fmt.Errorf("%w, \"make bench-tools\"", err)
	}
	limit := startLimit
	if len(u.command) > 0 {
		limit = countedStartLimit
		// callgrind does not expect the signals by which Go's scheduler interrupts. It runs one thread
		// at a time, so that another one of Go's would only spin.
		env = slices.Concat(env, u.env, []string{"GODEBUG=asyncpreemptoff=1", "GOMAXPROCS=1"})
		args = slices.Concat(u.command[1:], []string{path}, args)
		if path, err = exec.LookPath(u.command[0]); err != nil {
			return nil, fmt.Errorf("%w, tools/%s.sh", err, u.command[0])
		}
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	started, err := process.StartLogged(name, cmd, io.Discard)
	if err != nil {
		return nil, err
	}
	return &subprocess{started, limit}, nil
}

// await returns once ready reports nil, or with the reason why it will not.
func (p *subprocess) await(ctx context.Context, ready func(context.Context) error) error {
	if err := process.Await(ctx, p.limit, ready, p.Process); err != nil {
		return p.explain(err)
	}
	return nil
}

// explain adds the process's name and the last of its output to an error.
func (p *subprocess) explain(err error) error {
	return fmt.Errorf("%s: %w; it printed:\n%s", p.Name, err, p.Last())
}

// stop ends the process and returns when it has gone.
func (p *subprocess) stop() { p.Stop(stopLimit) }

// usage has the system's figures of the process.
func (p *subprocess) usage() *system.Process { return &system.Process{Pid: int32(p.PID())} }

// cpu returns the CPU time that the process has used, all its threads together.
func (p *subprocess) cpu() (time.Duration, error) {
	used, err := p.usage().Times()
	if err != nil {
		return 0, p.explain(err)
	}
	return seconds(used.User + used.System), nil
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// residentMB returns how much memory the process holds, in MB.
func (p *subprocess) residentMB() (float64, error) {
	memory, err := p.usage().MemoryInfo()
	if err != nil {
		return 0, p.explain(err)
	}
	return float64(memory.RSS) / (1 << 20), nil
}
