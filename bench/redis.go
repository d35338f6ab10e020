package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// redisServer is the one Redis that every setup counts in.
type redisServer struct {
	*subprocess

	port   int
	client *redis.Client
}

func (u under) startRedis(ctx context.Context, dir string, port int) (*redisServer, error) {
	args := []string{
		"--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--save", "", "--appendonly", "no", "--daemonize", "no",
	}
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

func (s *redisServer) version(ctx context.Context) (string, error) {
	info, err := s.client.Info(ctx, "server").Result()
	for line := range strings.Lines(info) {
		if version, ok := strings.CutPrefix(line, "redis_version:"); ok {
			return strings.TrimSpace(version), nil
		}
	}
	return "", fmt.Errorf("INFO names no version: %w", err)
}

// callCounts are how often Redis has run each command, by its name.
type callCounts map[string]int64

func (s *redisServer) calls(ctx context.Context) (callCounts, error) {
	info, err := s.client.Info(ctx, "commandstats").Result()
	if err != nil {
		return nil, err
	}
	return parseCalls(info)
}

// reads is how often Redis has read from a connection: what was written to it at once
// is read at once.
func (s *redisServer) reads(ctx context.Context) (int64, error) {
	info, err := s.client.Info(ctx, "stats").Result()
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(info) {
		if reads, ok := strings.CutPrefix(line, "total_reads_processed:"); ok {
			return strconv.ParseInt(strings.TrimSpace(reads), 10, 64)
		}
	}
	return 0, errors.New("INFO tells no total_reads_processed")
}

// parseCalls reads lines such as "cmdstat_evalsha:calls=3,usec=21,…".
// https://redis.io/docs/latest/commands/info/
func parseCalls(info string) (callCounts, error) {
	counts := callCounts{}
	for line := range strings.Lines(info) {
		name, rest, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if !ok {
			continue
		}
		text, _, _ := strings.Cut(rest, ",")
		calls, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("INFO commandstats: %q: %w", line, err)
		}
		counts[name] = calls
	}
	return counts, nil
}

// upkeep is the commands that clients send for no request: this benchmark's
// INFO, and what keeps or opens the connections of setups that are idle.
var upkeep = map[string]bool{"info": true, "ping": true, "hello": true, "client|setinfo": true, "auth": true}

// sentSince returns how many commands came over the wire since before, upkeep
// left out. Redis counts what a script calls too; no setup sends both scripts
// and other commands, so where scripts ran, they are what was sent.
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
