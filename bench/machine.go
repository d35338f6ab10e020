package main

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/host"
	average "github.com/shirou/gopsutil/v4/load"
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
	m = machine{Date: time.Now().UTC().Format(time.DateOnly), Cores: runtime.NumCPU(), CPU: runtime.GOARCH}
	if found, err := cpu.InfoWithContext(ctx); err == nil && len(found) > 0 && found[0].ModelName != "" {
		m.CPU = found[0].ModelName
	}
	before, err := average.AvgWithContext(ctx)
	if err != nil {
		return m, err
	}
	m.LoadAverage = fmt.Sprintf("%.2f %.2f %.2f", before.Load1, before.Load5, before.Load15)
	if m.Kernel, err = host.KernelVersion(); err != nil {
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

// foreignCPU is the CPU time that everything but the benchmark has used since
// the machine started. Only differences mean something.
func (b *bench) foreignCPU() (time.Duration, error) {
	all, err := cpu.Times(false)
	if err != nil {
		return 0, err
	}
	sum := busy(all[0])
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

// busy is all but idle and iowait, and not guest, which user holds already.
func busy(t cpu.TimesStat) time.Duration {
	return seconds(t.User + t.Nice + t.System + t.Irq + t.Softirq + t.Steal)
}
