package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"time"
)

// startLimit bounds the wait for the server to answer.
const startLimit = 20 * time.Second

// server is a redis-server on loopback that keeps nothing on disk.
type server struct {
	addr   string
	dir    string // its working directory
	cmd    *exec.Cmd
	exited chan struct{}
}

// startServer returns once the server answers. It is killed by stop, and when
// the context ends.
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
	s := &server{addr: addr, dir: dir, exited: make(chan struct{})}
	s.cmd = exec.CommandContext(ctx, path, "--bind", host, "--port", port, "--dir", dir,
		"--save", "", "--appendonly", "no", "--daemonize", "no")
	if err := s.cmd.Start(); err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	go func() {
		defer close(s.exited)
		_ = s.cmd.Wait() // that it was killed is no news
	}()
	if err := s.await(ctx); err != nil {
		s.stop()
		return nil, err
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

func (s *server) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ping(ctx, s.addr)
		if err == nil {
			return nil
		}
		select {
		case <-s.exited:
			return errors.New("redis-server ended at its start")
		case <-ctx.Done():
			return fmt.Errorf("redis-server is not ready: %w", err)
		case <-tick.C:
		}
	}
}

func ping(ctx context.Context, addr string) error {
	c, err := dial(ctx, addr)
	if err != nil {
		return err
	}
	defer c.close()
	_, err = c.do("PING")
	return err
}

// stop ends the server and returns when it has gone.
func (s *server) stop() {
	_ = s.cmd.Process.Kill() // the one error is that it has gone already
	<-s.exited
	os.RemoveAll(s.dir)
}
