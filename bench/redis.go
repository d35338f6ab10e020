package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/internal/process"
)

// redisServer is the one Redis that every setup counts in.
type redisServer struct {
	*subprocess

	port   int
	client *redis.Client
}

func (u under) startRedis(ctx context.Context, dir string, port int) (*redisServer, error) {
	args := process.RedisArgs(dir, port)
	if len(u.command) > 0 { // what it does by the clock counts as little as can be
		// jemalloc's thread sleeps until a time of the real clock, and with a slow one never.
		args = append(args, "--hz", "1", "--jemalloc-bg-thread", "no")
	}
	p, err := u.startProcess(dir, "redis", nil, "redis-server", args...)
	if err != nil {
		return nil, err
	}
	s := &redisServer{subprocess: p, port: port, client: redis.NewClient(&redis.Options{Addr: addr(port), Protocol: 2})}
	if err := p.await(ctx, func(ctx context.Context) error { return s.client.Ping(ctx).Err() }); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

func (s *redisServer) stop() {
	s.client.Close()
	s.subprocess.stop()
}

// callCounts are how often Redis has run each command, by its name.
type callCounts map[string]int64

// work counts Redis' commands, and how often Redis has read from a connection. One read takes all
// that one write has brought.
func (s *redisServer) work(ctx context.Context) (callCounts, int64, error) {
	info := s.client.InfoMap(ctx, "all")
	if err := info.Err(); err != nil {
		return nil, 0, err
	}
	reads, err := strconv.ParseInt(info.Item("Stats", "total_reads_processed"), 10, 64)
	if err != nil {
		return nil, 0, fmt.Errorf("INFO: total_reads_processed: %w", err)
	}
	counts, err := parseCalls(info.Val()["Commandstats"])
	return counts, reads, err
}

// parseCalls reads fields such as "cmdstat_evalsha" with values such as "calls=3,usec=21,…".
// https://redis.io/docs/latest/commands/info/
func parseCalls(stats map[string]string) (callCounts, error) {
	counts := callCounts{}
	for name, value := range stats {
		text, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
		calls, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("INFO commandstats: %s: %q: %w", name, value, err)
		}
		counts[strings.TrimPrefix(name, "cmdstat_")] = calls
	}
	return counts, nil
}

// upkeep is the commands that clients send for no request: this benchmark's
// INFO, and what keeps or opens the connections of setups that are idle.
var upkeep = map[string]bool{"info": true, "ping": true, "hello": true, "client|setinfo": true, "auth": true}

// sentSince returns how many commands came over the wire since before, upkeep
// left out. Redis counts what a script calls too; no setup sends both scripts
// and other commands, so where scripts ran, only they were sent.
func (c callCounts) sentSince(before callCounts) int64 {
	var scripts, others int64
	for name, calls := range c {
		calls -= before[name]
		switch {
		case name == "eval" || name == "evalsha":
			scripts += calls
		case !upkeep[name]:
			others += calls
		}
	}
	if scripts > 0 {
		return scripts
	}
	return others
}
