package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"

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
		{&m.Kernel, []string{"uname", "-r"}},
		{&m.LoadAverage, []string{"cut", "-d", " ", "-f", "1-3", "/proc/loadavg"}},
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

// others is the time of this machine that other programs than the benchmark have used, in seconds. Only
// differences mean something.
type others struct {
	foreign float64 // CPU time of everything but the benchmark
	stolen  float64 // what the hypervisor gave to other machines
}

// since is how many cores others have used since before, and which part of the machine's time was
// stolen.
func (o others) since(before others, elapsed time.Duration) (cores, stolen float64) {
	passed := elapsed.Seconds()
	return (o.foreign - before.foreign) / passed, (o.stolen - before.stolen) / passed / float64(runtime.NumCPU())
}

func (b *bench) others() (o others, err error) {
	all, err := cpu.Times(false)
	if err != nil {
		return o, err
	}
	o = others{foreign: busy(all[0]), stolen: all[0].Steal}
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var usage syscall.Rusage
		if err := syscall.Getrusage(who, &usage); err != nil {
			return o, err
		}
		o.foreign -= float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
	}
	for _, p := range b.started {
		used, err := p.cpu()
		if err != nil {
			return o, err
		}
		o.foreign -= used
	}
	return o, nil
}

// busy is all but idle and iowait, but what the hypervisor took, and not guest, which user holds already.
func busy(t cpu.TimesStat) float64 { return t.User + t.Nice + t.System + t.Irq + t.Softirq }

// What a run that is to be published must be: long enough, and alone on its machine.
const (
	leastRounds  = 7
	leastSeconds = 4
	mostForeign  = 0.1  // cores that others use while something is measured
	mostStolen   = 0.02 // of the machine's time
)

// Bound: how often one measurement is made again because others disturbed it, and how long the
// benchmark waits for them each time.
const (
	mostRepeats = 40
	longestWait = 2 * time.Minute
)

// disturbed says what was too much for a figure that is published, and is nil if nothing was.
func disturbed(foreign, stolen float64) error {
	switch {
	case foreign > mostForeign:
		return fmt.Errorf("other processes use %.2f cores (want at most %g; find them with top, and end them or wait)",
			foreign, mostForeign)
	case stolen > mostStolen:
		return fmt.Errorf("the hypervisor takes %.1f %% of the machine's time (want at most %g %%; take another machine, "+
			"or wait)", 100*stolen, 100*mostStolen)
	}
	return nil
}

// publishable refuses what a run that is published may not be.
func (o options) publishable() error {
	switch {
	case o.rounds < leastRounds || o.seconds < leastSeconds:
		return fmt.Errorf("%d rounds of %d s are too few to publish (want ROUNDS=%d SECONDS=%d or more)",
			o.rounds, o.seconds, leastRounds, leastSeconds)
	case o.before != "":
		return errors.New("what is published is the comparison with the peers (want no BEFORE)")
	}
	return nil
}

// awaitQuiet watches the machine, again and again until it is quiet, or tells what disturbs it after a limit.
func (b *bench) awaitQuiet(ctx context.Context, length, limit time.Duration) error {
	for deadline := time.Now().Add(limit); ; {
		before, err := b.others()
		if err != nil {
			return err
		}
		begun := time.Now()
		select {
		case <-time.After(length):
		case <-ctx.Done():
			return ctx.Err()
		}
		after, err := b.others()
		if err != nil {
			return err
		}
		err = disturbed(after.since(before, time.Since(begun)))
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

// measureQuietly adds a measurement of the setup that is up to a run. It measures again if others have
// disturbed it and that matters.
func (b *bench) measureQuietly(ctx context.Context, r *report, o options) error {
	for repeat := 0; ; repeat++ {
		s, err := b.measure(ctx, o.seconds)
		if err != nil {
			return err
		}
		noise := disturbed(s.Foreign, s.Stolen)
		switch {
		case noise == nil || !o.publish:
			r.Results[b.measured.ID] = append(r.Results[b.measured.ID], s)
			return nil
		case repeat == mostRepeats:
			return fmt.Errorf("%d times in a row: %w", repeat+1, noise)
		}
		r.Repeated++
		if err := b.awaitQuiet(ctx, time.Second, longestWait); err != nil {
			return err
		}
	}
}
