package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/process"
)

// envoy is a process that is measured.
type envoy struct {
	process *process.Process
	ready   time.Time
	dir     string // of its files
}

func (e *envoy) stop() {
	if e.process != nil {
		e.process.Kill()
	}
	os.RemoveAll(e.dir)
}

// start starts an Envoy, and waits until it is ready.
func (r row) start(ctx context.Context, wasm string) (_ *envoy, err error) {
	dir, err := os.MkdirTemp("", "footprint")
	if err != nil {
		return nil, err
	}
	e := &envoy{dir: dir}
	defer func() {
		if err != nil {
			e.stop()
		}
	}()
	file, addresses := filepath.Join(dir, "envoy.yaml"), filepath.Join(dir, "admin")
	if err := r.write(file, wasm); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "envoy", "-c", file, "--concurrency", strconv.Itoa(r.workers), "--use-dynamic-base-id",
		"--admin-address-path", addresses, "-l", "critical")
	cmd.Stderr = os.Stderr
	if e.process, err = process.Start(cmd); err != nil {
		return nil, err
	}
	ready := func(ctx context.Context) error {
		addr, err := os.ReadFile(addresses)
		if err != nil {
			return err
		}
		return process.EnvoyReady(ctx, string(addr))
	}
	if err := process.Await(ctx, time.Minute, ready, e.process); err != nil {
		return nil, err
	}
	e.ready = time.Now()
	return e, nil
}

// lookAfter looks at the process some time after it was ready.
func (e *envoy) lookAfter(ctx context.Context, wait time.Duration) (sample, error) {
	select {
	case <-ctx.Done():
		return sample{}, ctx.Err()
	case <-time.After(time.Until(e.ready.Add(wait))):
		return look(e.process.PID())
	}
}

// write writes the configuration, with ports that the kernel chooses.
func (r row) write(file, wasm string) error {
	c, err := envoyconf.Read("envoy.yaml")
	if err != nil {
		return err
	}
	c.SetPorts(0, 0)
	c.SetWasm(wasm)
	r.edit(c)
	text, err := c.YAML()
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600)
}

// ticks is the unit of times in /proc (proc_pid_stat(5)), 100 a second on every Linux for Go.
const ticks = 100

// look reads what a process has taken and holds.
func look(pid int) (sample, error) {
	proc := "/proc/" + strconv.Itoa(pid)
	stat, err := os.ReadFile(proc + "/stat")
	if err != nil {
		return sample{}, err
	}
	status, err := os.ReadFile(proc + "/status")
	if err != nil {
		return sample{}, err
	}
	// The program's name, in parentheses, may hold spaces. utime and stime are fields 14 and 15.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	s := sample{anonMB: field(status, "RssAnon:"), restMB: field(status, "RssFile:") + field(status, "RssShmem:")}
	for _, f := range fields[11:13] {
		n, err := strconv.Atoi(f)
		if err != nil {
			return sample{}, err
		}
		s.cpu += time.Duration(n) * time.Second / ticks
	}
	return s, nil
}

// field is a value of /proc/PID/status in MB, which has it in KiB.
func field(status []byte, name string) float64 {
	_, rest, _ := strings.Cut(string(status), name)
	number, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	n, _ := strconv.ParseFloat(number, 64)
	return n * 1024 / 1e6
}
