package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	system "github.com/shirou/gopsutil/v4/process"

	"github.com/sluiceproxy/sluice/internal/process"
)

const (
	// startLimit bounds the wait for a process to serve, stopLimit that for its end; Envoy compiles the
	// plugin at its start.
	startLimit = 60 * time.Second
	stopLimit  = 5 * time.Second
	// countedStartLimit is the same where callgrind counts its instructions.
	countedStartLimit = 20 * time.Minute
)

// subprocess is a program that takes part in the benchmark.
type subprocess struct{ *process.Logged }

// start runs a program until stop, and returns when it is ready. The variables of env ("NAME=value") are added to
// this process's own. The kernel kills it should the benchmark die.
func (b *bench) start(ctx context.Context, name string, env []string, ready func(context.Context) error,
	program string, args ...string,
) (*subprocess, error) {
	path, err := process.Find("..", program)
	if err != nil {
		return nil, fmt.Errorf("%w, \"make bench-tools\"", err)
	}
	limit := startLimit
	if len(b.command) > 0 {
		limit = countedStartLimit
		// callgrind does not expect the signals by which Go's scheduler interrupts. It runs one thread
		// at a time, so that another one of Go's would only spin.
		env = slices.Concat(env, b.env, []string{"GODEBUG=asyncpreemptoff=1", "GOMAXPROCS=1"})
		args = slices.Concat(b.command[1:], []string{path}, args)
		if path, err = exec.LookPath(b.command[0]); err != nil {
			return nil, fmt.Errorf("%w, tools/%s.sh", err, b.command[0])
		}
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = b.dir
	cmd.Env = append(os.Environ(), env...)
	started, err := process.StartLogged(name, cmd, io.Discard)
	if err != nil {
		return nil, err
	}
	p := &subprocess{started}
	b.started = append(b.started, p)
	if err := process.Await(ctx, limit, ready, p.Process); err != nil {
		return nil, p.explain(err)
	}
	return p, nil
}

// explain adds the process's name and the last of its output to an error.
func (p *subprocess) explain(err error) error {
	return fmt.Errorf("%s: %w; it printed:\n%s", p.Name, err, p.Last())
}

// stop ends the process and returns when it has gone.
func (p *subprocess) stop() { p.Stop(stopLimit) }

// usage has the system's figures of the process.
func (p *subprocess) usage() *system.Process { return &system.Process{Pid: int32(p.PID())} }

// cpu returns the CPU time that the process has used, all its threads together, in seconds.
func (p *subprocess) cpu() (float64, error) {
	used, err := p.usage().Times()
	if err != nil {
		return 0, p.explain(err)
	}
	return used.User + used.System, nil
}

// residentMB returns how much memory the process holds, in MB.
func (p *subprocess) residentMB() (float64, error) {
	memory, err := p.usage().MemoryInfo()
	if err != nil {
		return 0, p.explain(err)
	}
	return float64(memory.RSS) / (1 << 20), nil
}

// redisServer is a Redis that setups count in.
type redisServer struct {
	*subprocess

	port   int
	client *redis.Client
}

func (b *bench) startRedis(ctx context.Context, port int) (*redisServer, error) {
	args := process.RedisArgs(b.dir, port)
	if len(b.command) > 0 { // what it does by the clock counts as little as can be
		// jemalloc's thread sleeps until a time of the real clock, and with a slow one never.
		args = append(args, "--hz", "1", "--jemalloc-bg-thread", "no")
	}
	ready := func(ctx context.Context) error { return process.PingRedis(ctx, addr(port)) }
	p, err := b.start(ctx, "redis", nil, ready, "redis-server", args...)
	if err != nil {
		return nil, err
	}
	return &redisServer{p, port, redis.NewClient(&redis.Options{Addr: addr(port), Protocol: 2})}, nil
}

// callCounts are how often Redis has run each command, by its name.
type callCounts map[string]int64

// work counts Redis' commands.
func (s *redisServer) work(ctx context.Context) (callCounts, error) {
	info := s.client.InfoMap(ctx, "commandstats")
	if err := info.Err(); err != nil {
		return nil, err
	}
	return parseCalls(info.Val()["Commandstats"])
}

// parseCalls reads fields such as "cmdstat_evalsha" with values such as "calls=3,usec=21,…".
// https://redis.io/docs/latest/commands/info/
func parseCalls(stats map[string]string) (callCounts, error) {
	counts := callCounts{}
	for name, value := range stats {
		var calls int64
		if _, err := fmt.Sscanf(value, "calls=%d,", &calls); err != nil {
			return nil, fmt.Errorf("INFO commandstats: %s: %q: %w", name, value, err)
		}
		counts[strings.TrimPrefix(name, "cmdstat_")] = calls
	}
	return counts, nil
}

// upkeep is the commands that clients send for no request: this benchmark's INFO, and what keeps or
// opens the connections of setups that are idle.
var upkeep = []string{"info", "ping", "hello", "client|setinfo", "auth"}

// sentSince returns how many commands came over the wire since before, upkeep left out. Redis counts
// what a script calls too; no setup sends both scripts and other commands, so where scripts ran, only
// they were sent.
func (c callCounts) sentSince(before callCounts) int64 {
	var scripts, others int64
	for name, calls := range c {
		calls -= before[name]
		switch {
		case name == "eval" || name == "evalsha":
			scripts += calls
		case !slices.Contains(upkeep, name):
			others += calls
		}
	}
	if scripts > 0 {
		return scripts
	}
	return others
}
