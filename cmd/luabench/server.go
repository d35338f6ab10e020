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

// onServer measures on a redis-server on loopback that keeps nothing on disk.
func onServer(ctx context.Context, measure func(addr string) error) error {
	addr, err := freeAddr(ctx)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "sluice-luabench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	host, port, _ := net.SplitHostPort(addr)
	path, err := process.Find(".", "redis-server")
	if err != nil {
		return err
	}
	p, err := process.Start(exec.Command(path,
		"--bind", host, "--port", port, "--dir", dir, "--save", "", "--appendonly", "no", "--daemonize", "no"))
	if err != nil {
		return err
	}
	defer p.Kill()
	ready := func(ctx context.Context) error { return process.PingRedis(ctx, addr) }
	if err := process.Await(ctx, startLimit, ready, p); err != nil {
		return fmt.Errorf("redis-server: %w", err)
	}
	return measure(addr)
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
