package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// startLimit bounds the wait for a process to serve, stopLimit that for its
	// end; Envoy compiles the plugin at its start.
	startLimit = 60 * time.Second
	stopLimit  = 5 * time.Second
)

// process is a program that takes part in the benchmark.
type process struct {
	name   string
	cmd    *exec.Cmd
	log    string // file of its output
	exited chan struct{}
}

// startProcess runs a program with its output going to a file in dir. The
// variables of env ("NAME=value") are added to this process's own. The kernel
// kills it should the benchmark die.
func startProcess(dir, name string, env []string, program string, args ...string) (*process, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return nil, fmt.Errorf("%w: run \"make tools bench-tools\"", err)
	}
	log, err := os.Create(filepath.Join(dir, name+".log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p := &process{name: name, cmd: exec.Command(path, args...), log: log.Name(), exited: make(chan struct{})}
	p.cmd.Dir = dir
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.exited)
		_ = p.cmd.Wait() // how it ended is of no interest once it is asked to
	}()
	return p, nil
}

// await returns once ready reports nil, or with the reason why it will not.
func (p *process) await(ctx context.Context, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.exited:
			return p.explain(errors.New("it ended at its start"))
		case <-ctx.Done():
			return p.explain(fmt.Errorf("not ready: %w", err))
		case <-tick.C:
		}
	}
}

// explain adds the process's name and the last of its output to an error.
func (p *process) explain(err error) error {
	const kept = 2000
	text, readErr := os.ReadFile(p.log)
	if readErr != nil {
		return fmt.Errorf("%s: %w (%w)", p.name, err, readErr)
	}
	return fmt.Errorf("%s: %w; it printed:\n%s", p.name, err, text[max(0, len(text)-kept):])
}

// stop ends the process and returns when it has gone.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // the one error is that it has gone already
	select {
	case <-p.exited:
	case <-time.After(stopLimit):
		_ = p.cmd.Process.Kill()
		<-p.exited
	}
}

// ticksPerSecond is the unit of CPU times under /proc, USER_HZ: 100 on every
// Linux architecture that Envoy runs on.
const ticksPerSecond = 100

// cpu returns the CPU time that the process has used, all its threads together.
// https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
func (p *process) cpu() (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
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
func (p *process) residentMB() (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
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
