package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// machine is where and when a benchmark ran.
type machine struct {
	Date        string `json:"date"`
	Commit      string `json:"commit"`
	CPU         string `json:"cpu"`
	Cores       int    `json:"cores"`
	Kernel      string `json:"kernel"`
	Envoy       string `json:"envoy"`
	Redis       string `json:"redis"`
	Peer        string `json:"ratelimit"` // version of github.com/envoyproxy/ratelimit
	LoadAverage string `json:"load_average_before"`
}

func (b *bench) describe(ctx context.Context) (m machine, err error) {
	m = machine{Date: time.Now().UTC().Format(time.DateOnly), Cores: runtime.NumCPU(), CPU: cpuModel()}
	if m.LoadAverage, err = firstLine("/proc/loadavg"); err != nil {
		return m, err
	}
	m.LoadAverage = strings.Join(strings.Fields(m.LoadAverage)[:3], " ")
	if m.Kernel, err = firstLine("/proc/sys/kernel/osrelease"); err != nil {
		return m, err
	}
	if m.Redis, err = b.redis.version(ctx); err != nil {
		return m, err
	}
	for _, each := range []struct {
		to   *string
		args []string
	}{
		{&m.Commit, []string{"git", "describe", "--always", "--dirty"}},
		{&m.Peer, []string{"go", "list", "-m", "-f", "{{.Version}}", "github.com/envoyproxy/ratelimit"}},
		{&m.Envoy, []string{program("envoy"), "--version"}},
	} {
		cmd := exec.CommandContext(ctx, each.args[0], each.args[1:]...)
		cmd.Dir = b.root + "/bench"
		out, err := cmd.Output()
		if err != nil {
			return m, fmt.Errorf("%q: %w", each.args, err)
		}
		*each.to = strings.TrimSpace(string(out))
	}
	// "…/envoy  version: <commit>/1.36.4/Clean/RELEASE/BoringSSL"
	if parts := strings.Split(m.Envoy, "/"); len(parts) > 3 {
		m.Envoy = parts[len(parts)-4]
	}
	return m, nil
}

func cpuModel() string {
	text, _ := os.ReadFile("/proc/cpuinfo") // no model: the architecture says something
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

func firstLine(path string) (string, error) {
	text, err := os.ReadFile(path)
	line, _, _ := bytes.Cut(text, []byte("\n"))
	return string(line), err
}

// foreignCPU is the CPU time that everything but the benchmark has used since
// the machine started. Only differences mean something.
func (b *bench) foreignCPU() (time.Duration, error) {
	line, err := firstLine("/proc/stat")
	if err != nil {
		return 0, err
	}
	sum, err := parseBusy(line)
	if err != nil {
		return 0, err
	}
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var usage syscall.Rusage
		if err := syscall.Getrusage(who, &usage); err != nil {
			return 0, err
		}
		sum -= time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	for _, p := range b.processes() {
		used, err := p.cpu()
		if err != nil {
			return 0, err
		}
		sum -= used
	}
	return sum, nil
}

// parseBusy reads the first line of /proc/stat: all but idle and iowait, and
// not guest, which user holds already.
// https://man7.org/linux/man-pages/man5/proc_stat.5.html
func parseBusy(line string) (time.Duration, error) {
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, errors.New("/proc/stat does not begin with the CPUs' sum")
	}
	return ticks(append(fields[1:4:4], fields[6:9]...))
}
