// Demo runs what "make run" shows: Redis, an upstream and Envoy with
// envoy.yaml, on the ports that file has or, where one is taken, on a free one.
// With STORE=local in the environment there is no Redis, and Envoy's workers
// count in memory they share. It shows each decision, and ends all it started
// on Ctrl-C.
package main

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"text/template"
	"time"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/process"
)

const startLimit = 60 * time.Second

// ports are those of 127.0.0.1 on which something listens.
type ports struct{ listener, admin, upstream, redis int }

// documented are the ports that envoy.yaml has.
var documented = ports{listener: 10000, admin: 9901, upstream: 8080, redis: 6379}

func addr(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// demo is everything that runs. The working directory is the repository's.
type demo struct {
	out      io.Writer
	store    string // "local": no Redis
	ports    ports
	children []*process.Logged
	died     chan *process.Logged
}

func main() {
	ctx, _ := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	d := demo{out: os.Stdout, store: os.Getenv("STORE"), ports: documented}
	if err := d.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// run starts everything and ends it when the context does, or when one of its
// parts dies, which is an error.
func (d *demo) run(ctx context.Context) error {
	if !slices.Contains([]string{"", "local", "redis"}, d.store) {
		return fmt.Errorf("STORE=%s: want local, or nothing for Redis", d.store)
	}
	if _, err := os.Stat("build/sluice.wasm"); err != nil {
		return fmt.Errorf("%w: run \"make run\" in the repository, which builds it first", err)
	}
	dir, err := os.MkdirTemp("", "sluice-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	d.died = make(chan *process.Logged, 2) // at most Redis and Envoy
	defer func() {
		for _, c := range slices.Backward(d.children) {
			c.Stop(5 * time.Second)
		}
	}()
	err = d.start(ctx, dir)
	if err != nil && !errors.Is(err, process.ErrEnded) && !errors.Is(err, context.Canceled) { // Ctrl-C while starting
		return err
	}
	select {
	case <-ctx.Done():
		fmt.Fprintln(d.out, "\nending what was started")
		return nil
	case c := <-d.died:
		return fmt.Errorf("%s has died (%v); the last it printed:\n%s", c.Name, cmp.Or(c.Err(), process.ErrEnded), c.Last())
	}
}

//go:embed try.tmpl
var tryFile string

// start brings up Redis, the upstream, which this process serves, and Envoy, each when the one before it
// answers, and says what to try.
func (d *demo) start(ctx context.Context, dir string) error {
	if err := d.settle(); err != nil {
		return err
	}
	c, err := envoyconf.Read("envoy.yaml")
	if err != nil {
		return err
	}
	at := map[string]any{"Listener": addr(d.ports.listener), "Admin": addr(d.ports.admin)}
	c.SetPorts(d.ports.listener, d.ports.admin)
	c.SetUpstream(addr(d.ports.upstream))
	if d.store == "local" {
		c.RemoveRedis()
	} else {
		at["Redis"] = d.ports.redis
		c.SetRedis(addr(d.ports.redis))
		err := d.launch(ctx, io.Discard, process.PingRedis, d.ports.redis, "redis-server",
			process.RedisArgs(dir, d.ports.redis)...)
		if err != nil {
			return err
		}
	}
	l, err := net.Listen("tcp4", addr(d.ports.upstream))
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { l.Close() })
	go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { // ends with the context
		fmt.Fprintf(w, "the upstream got %s %s\n", r.Method, r.URL)
	}))
	text, err := c.YAML()
	if err != nil {
		return err
	}
	if err := d.launch(ctx, d.out, process.EnvoyReady, d.ports.admin, "envoy", "--config-yaml", string(text),
		"--disable-hot-restart", "--file-flush-interval-msec", "50", "--log-level", "error",
		"--component-log-level", "wasm:info", "--log-format", "[%l] %v"); err != nil {
		return err
	}
	return template.Must(template.New("").Parse(tryFile)).Execute(d.out, at)
}

// settle takes another port where one is taken. Whatever listens there is left alone.
func (d *demo) settle() error {
	all := []*int{&d.ports.listener, &d.ports.admin, &d.ports.upstream, &d.ports.redis}
	if d.store == "local" {
		all = all[:3]
	}
	for i, port := range all {
		l, err := net.Listen("tcp4", addr(*port))
		if err != nil {
			if l, err = net.Listen("tcp4", addr(0)); err != nil {
				return err
			}
			taken, use := *port, []string{"the limited listener", "Envoy's admin", "the upstream", "Redis"}[i]
			*port = l.Addr().(*net.TCPAddr).Port
			fmt.Fprintf(d.out, "port %d is taken: %s is on %d instead\n", taken, use, *port)
		}
		defer l.Close() // not before the others have ports of their own
	}
	return nil
}

// launch starts a program, whose output goes to a writer, and returns once it answers at a port, or with the
// reason why it will not.
func (d *demo) launch(ctx context.Context, to io.Writer, answers func(context.Context, string) error, port int,
	name string, args ...string,
) error {
	path, err := process.Find(".", name)
	if err != nil {
		return err
	}
	cmd := exec.Command(path, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for the demo, which ends its children in order
	c, err := process.StartLogged(name, cmd, to)
	if err != nil {
		return err
	}
	d.children = append(d.children, c)
	go func() {
		<-c.Exited()
		d.died <- c
	}()
	return process.Await(ctx, startLimit, func(ctx context.Context) error { return answers(ctx, addr(port)) }, c.Process)
}
