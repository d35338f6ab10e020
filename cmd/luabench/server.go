package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"time"

	"github.com/sluiceproxy/sluice/internal/process"
)

// startLimit bounds the wait for the server to answer.
const startLimit = 20 * time.Second

// server is a redis-server on loopback that keeps nothing on disk.
type server struct {
	addr string
	dir  string // its working directory

	*process.Process
}

// startServer returns once the server answers. stop ends it.
func startServer(ctx context.Context) (*server, error) {
	program := os.Getenv("REDIS_SERVER")
	if program == "" {
		program = "redis-server"
	}
	path, err := exec.LookPath(program)
	if err != nil {
		return nil, fmt.Errorf("%w: run \"make tools\"", err)
	}
	addr, err := freeAddr(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "sluice-luabench-")
	if err != nil {
		return nil, err
	}
	host, port, _ := net.SplitHostPort(addr)
	cmd := exec.Command(path, "--bind", host, "--port", port, "--dir", dir,
		"--save", "", "--appendonly", "no", "--daemonize", "no")
	p, err := process.Start(cmd)
	if err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	s := &server{addr: addr, dir: dir, Process: p}
	ready := func(ctx context.Context) error { return process.PingRedis(ctx, addr) }
	if err := process.Await(ctx, startLimit, ready, p); err != nil {
		s.stop()
		return nil, fmt.Errorf("redis-server: %w", err)
	}
	return s, nil
}

// freeAddr is an address of loopback on which nothing listens.
func freeAddr(ctx context.Context) (string, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// stop ends the server and returns when it has gone.
func (s *server) stop() {
	s.Kill()
	os.RemoveAll(s.dir)
}
