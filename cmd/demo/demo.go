package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/process"
)

const (
	configFile = "envoy.yaml"
	wasmFile   = "build/sluice.wasm"
	startLimit = 60 * time.Second
)

// demo is everything that runs. The working directory is the repository's.
type demo struct {
	out   io.Writer
	local bool // no Redis
	ports ports

	dir      string // scratch
	children []*process.Logged
	died     chan *process.Logged
}

// run starts everything and ends it when the context does, or when one of its
// parts dies, which is an error.
func (d *demo) run(ctx context.Context) error {
	if _, err := os.Stat(wasmFile); err != nil {
		return fmt.Errorf("%w: run \"make run\" in the repository, which builds it first", err)
	}
	dir, err := os.MkdirTemp("", "sluice-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	d.dir, d.died = dir, make(chan *process.Logged, 2) // at most Redis and Envoy
	defer d.stop()

	if err := d.start(ctx); err != nil {
		if errors.Is(err, context.Canceled) {
			return nil // Ctrl-C while starting
		}
		return err
	}
	d.explain()
	select {
	case <-ctx.Done():
		running := "Envoy and Redis"
		if d.local {
			running = "Envoy"
		}
		fmt.Fprintln(d.out, "\nending", running)
		return nil
	case c := <-d.died:
		return death(c)
	}
}

// start brings up Redis, the upstream and Envoy, each when the one before it
// answers.
func (d *demo) start(ctx context.Context) error {
	if err := d.ports.settle(d.out, d.local); err != nil {
		return err
	}
	if !d.local {
		if err := d.startRedis(ctx); err != nil {
			return err
		}
	}
	if err := d.startUpstream(ctx); err != nil {
		return err
	}
	return d.startEnvoy(ctx)
}

func (d *demo) startRedis(ctx context.Context) error {
	if err := d.launch(io.Discard, "redis-server", process.RedisArgs(d.dir, d.ports.redis.number)...); err != nil {
		return err
	}
	return d.await(ctx, func(ctx context.Context) error { return process.PingRedis(ctx, d.ports.redis.addr()) })
}

// startUpstream serves what the limiter protects, in this process.
func (d *demo) startUpstream(ctx context.Context) error {
	server := &http.Server{
		Addr:              d.ports.upstream.addr(),
		ReadHeaderTimeout: 10 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "the upstream got %s %s\n", r.Method, r.URL)
		}),
	}
	listener, err := listen(ctx, server.Addr)
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() { _ = server.Serve(listener) }() // ends with the context
	return nil
}

func (d *demo) startEnvoy(ctx context.Context) error {
	path, err := d.config()
	if err != nil {
		return err
	}
	err = d.launch(d.out, "envoy", "-c", path, "--disable-hot-restart", "--file-flush-interval-msec", "50",
		"--log-level", "error", "--component-log-level", "wasm:info", "--log-format", "[%l] %v")
	if err != nil {
		return err
	}
	return d.await(ctx, func(ctx context.Context) error { return process.EnvoyReady(ctx, d.ports.admin.addr()) })
}

// config is the path of Envoy's configuration: envoy.yaml itself where it fits.
func (d *demo) config() (path string, err error) {
	if !d.local && !d.ports.moved() {
		return configFile, nil
	}
	c, err := envoyconf.Read(configFile)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%w: run \"make run\" in the repository", err)
	}
	if err != nil {
		return "", err
	}
	c.SetPorts(d.ports.listener.number, d.ports.admin.number)
	c.SetUpstream(d.ports.upstream.addr())
	if d.local {
		c.RemoveRedis()
	} else {
		c.SetRedis(d.ports.redis.addr())
	}
	text, err := c.YAML()
	if err != nil {
		return "", err
	}
	path = filepath.Join(d.dir, configFile)
	return path, os.WriteFile(path, text, 0o600)
}
