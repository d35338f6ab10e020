package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluiceproxy/sluice/internal/process"
)

const (
	// startLimit bounds the wait for a process to serve, stopLimit that for its
	// end; Envoy compiles the plugin at its start.
	startLimit = 60 * time.Second
	stopLimit  = 5 * time.Second
)

// subprocess is a program that takes part in the benchmark.
type subprocess struct{ *process.Logged }

// startProcess runs a program in dir. The variables of env ("NAME=value") are added to
// this process's own. The kernel kills it should the benchmark die.
func startProcess(dir, name string, env []string, program string, args ...string) (*subprocess, error) {
	path, err := process.Find("..", program)
	if err != nil {
		return nil, fmt.Errorf("%w, \"make bench-tools\"", err)
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	started, err := process.StartLogged(name, cmd, io.Discard)
	if err != nil {
		return nil, err
	}
	return &subprocess{started}, nil
}

// await returns once ready reports nil, or with the reason why it will not.
func (p *subprocess) await(ctx context.Context, ready func(context.Context) error) error {
	if err := process.Await(ctx, startLimit, ready, p.Process); err != nil {
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

// ticksPerSecond is the unit of CPU times under /proc, USER_HZ: 100 on every
// Linux architecture that Envoy runs on.
const ticksPerSecond = 100

// cpu returns the CPU time that the process has used, all its threads together.
// https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
func (p *subprocess) cpu() (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
	if err != nil {
		return 0, p.explain(err)
	}
	return parseCPU(string(text))
}

// parseCPU reads utime and stime, fields 14 and 15. The second field, the
// program's name in parentheses, may hold anything.
func parseCPU(stat string) (time.Duration, error) {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/<pid>/stat is %q", stat)
	}
	return ticks(fields[11:13])
}

// ticks sums numbers of clock ticks.
func ticks(fields []string) (time.Duration, error) {
	var sum int64
	for _, field := range fields {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return time.Duration(sum) * time.Second / ticksPerSecond, nil
}

// residentMB returns how much memory the process holds, in MB.
func (p *subprocess) residentMB() (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	if err != nil {
		return 0, p.explain(err)
	}
	fields := strings.Fields(string(text))
	i := slices.Index(fields, "VmRSS:")
	if i < 0 || i+1 >= len(fields) {
		return 0, p.explain(errors.New("no VmRSS"))
	}
	kb, err := strconv.ParseFloat(fields[i+1], 64)
	return kb / 1024, err
}
