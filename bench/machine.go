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

	"github.com/sluiceproxy/sluice/internal/process"
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
	server := b.redis.client.InfoMap(ctx, "server")
	if m.Redis = server.Item("Server", "redis_version"); m.Redis == "" {
		return m, fmt.Errorf("INFO names no version (%v)", server.Err())
	}
	envoy, err := process.Find("..", "envoy")
	if err != nil {
		return m, err
	}
	for _, each := range []struct {
		to   *string
		args []string
	}{
		{&m.Commit, []string{"git", "describe", "--always", "--dirty"}},
		{&m.Peer, []string{"go", "list", "-m", "-f", "{{.Version}}", "github.com/envoyproxy/ratelimit"}},
		{&m.Envoy, []string{envoy, "--version"}},
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

// others is the time of this machine that other programs than the benchmark have used. Only
// differences mean something.
type others struct {
	foreign time.Duration // CPU time of everything but the benchmark
	stolen  time.Duration // what the hypervisor gave to other machines
}

// since is how many cores others have used since before, and which part of the machine's time was
// stolen.
func (o others) since(before others, elapsed time.Duration) (cores, stolen float64) {
	cores = (o.foreign - before.foreign).Seconds() / elapsed.Seconds()
	return cores, (o.stolen - before.stolen).Seconds() / elapsed.Seconds() / float64(runtime.NumCPU())
}

func (b *bench) others() (o others, err error) {
	all, err := cpu.Times(false)
	if err != nil {
		return o, err
	}
	o = others{foreign: busy(all[0]), stolen: seconds(all[0].Steal)}
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var usage syscall.Rusage
		if err := syscall.Getrusage(who, &usage); err != nil {
			return o, err
		}
		o.foreign -= time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	for _, p := range b.processes() {
		used, err := p.cpu()
		if err != nil {
			return o, err
		}
		o.foreign -= used
	}
	return o, nil
}

// busy is all but idle and iowait, but what the hypervisor took, and not guest, which user holds already.
func busy(t cpu.TimesStat) time.Duration {
	return seconds(t.User + t.Nice + t.System + t.Irq + t.Softirq)
}
