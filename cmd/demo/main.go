// Demo runs what "make run" shows: Redis, an upstream and Envoy with
// envoy.yaml, on the ports that file has or, where one is taken, on a free one.
// With STORE=local in the environment there is no Redis, and Envoy's workers
// count in memory they share. It shows each decision, and ends all it started
// on Ctrl-C.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/process"
)

const (
	wasmFile   = "build/sluice.wasm"
	startLimit = 60 * time.Second
	stopLimit  = 5 * time.Second
)

// The indices of ports.
const (
	listener = iota
	admin
	upstream
	redis
)

// port is where something listens on 127.0.0.1.
type port struct {
	use    string // what it is for
	wanted int    // what to take if it is free
	number int    // what it is, once settled
}

func (p port) addr() string { return fmt.Sprintf("127.0.0.1:%d", p.number) }

type ports [4]port

// documented are the ports that envoy.yaml has.
var documented = ports{
	{use: "the limited listener", wanted: 10000},
	{use: "Envoy's admin", wanted: 9901},
	{use: "the upstream", wanted: 8080},
	{use: "Redis", wanted: 6379},
}

// demo is everything that runs. The working directory is the repository's.
type demo struct {
	out      io.Writer
	local    bool // no Redis
	ports    ports
	dir      string // scratch
	children []*process.Logged
	died     chan *process.Logged
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	d := demo{out: os.Stdout, local: os.Getenv("STORE") == "local", ports: documented}
	err := checkStore(os.Getenv("STORE"))
	if err == nil {
		err = d.run(ctx)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func checkStore(store string) error {
	if store != "" && store != "local" && store != "redis" {
		return fmt.Errorf("STORE=%s: want local, or nothing for Redis", store)
	}
	return nil
}

// run starts everything and ends it when the context does, or when one of its
// parts dies, which is an error.
func (d *demo) run(ctx context.Context) (err error) {
	if _, err := os.Stat(wasmFile); err != nil {
		return fmt.Errorf("%w: run \"make run\" in the repository, which builds it first", err)
	}
	if d.dir, err = os.MkdirTemp("", "sluice-demo-"); err != nil {
		return err
	}
	defer os.RemoveAll(d.dir)
	d.died = make(chan *process.Logged, 2) // at most Redis and Envoy
	defer func() {
		for _, c := range slices.Backward(d.children) {
			c.Stop(stopLimit)
		}
	}()
	if err := d.start(ctx); errors.Is(err, process.ErrEnded) {
		return death(<-d.died)
	} else if err != nil && !errors.Is(err, context.Canceled) { // Ctrl-C while starting
		return err
	}
	select {
	case <-ctx.Done():
		fmt.Fprintln(d.out, "\nending what was started")
		return nil
	case c := <-d.died:
		return death(c)
	}
}

// start brings up Redis, the upstream, which this process serves, and Envoy, each when the one before it
// answers, and says what to try.
func (d *demo) start(ctx context.Context) error {
	if err := d.settle(); err != nil {
		return err
	}
	c, err := envoyconf.Read("envoy.yaml")
	if err != nil {
		return err
	}
	c.SetPorts(d.ports[listener].number, d.ports[admin].number)
	c.SetUpstream(d.ports[upstream].addr())
	if d.local {
		c.RemoveRedis()
	} else {
		c.SetRedis(d.ports[redis].addr())
		ready := func(ctx context.Context) error { return process.PingRedis(ctx, d.ports[redis].addr()) }
		args := process.RedisArgs(d.dir, d.ports[redis].number)
		if err := d.launch(ctx, io.Discard, ready, "redis-server", args...); err != nil {
			return err
		}
	}
	server := &http.Server{
		ReadHeaderTimeout: 10 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "the upstream got %s %s\n", r.Method, r.URL)
		}),
	}
	l, err := net.Listen("tcp4", d.ports[upstream].addr())
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() { _ = server.Serve(l) }() // ends with the context
	text, err := c.YAML()
	if err != nil {
		return err
	}
	path := filepath.Join(d.dir, "envoy.yaml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return err
	}
	ready := func(ctx context.Context) error { return process.EnvoyReady(ctx, d.ports[admin].addr()) }
	err = d.launch(ctx, d.out, ready, "envoy", "-c", path, "--disable-hot-restart", "--file-flush-interval-msec", "50",
		"--log-level", "error", "--component-log-level", "wasm:info", "--log-format", "[%l] %v")
	if err == nil {
		d.explain()
	}
	return err
}

// settle takes the wanted ports where they are free, and others where not.
// Whatever listens on a taken port is left alone.
func (d *demo) settle() error {
	for i := range d.ports {
		p := &d.ports[i]
		l, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", p.wanted))
		if err != nil {
			if l, err = net.Listen("tcp4", "127.0.0.1:0"); err != nil {
				return fmt.Errorf("no port is free for %s: %w", p.use, err)
			}
		}
		defer l.Close() // not before the others have ports of their own
		p.number = l.Addr().(*net.TCPAddr).Port
		if p.number != p.wanted && !(i == redis && d.local) {
			fmt.Fprintf(d.out, "port %d is taken: %s is on %d instead\n", p.wanted, p.use, p.number)
		}
	}
	return nil
}

// launch starts a program, whose output goes to a writer, and returns once it is ready, or with the reason why
// it will not be.
func (d *demo) launch(ctx context.Context, to io.Writer, ready func(context.Context) error, name string,
	args ...string,
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
	var running []*process.Process
	for _, c := range d.children {
		running = append(running, c.Process)
	}
	return process.Await(ctx, startLimit, ready, running...)
}

// death says how a child ended, with the last it printed.
func death(c *process.Logged) error {
	how := "it exited"
	if err := c.Err(); err != nil {
		how = err.Error()
	}
	return fmt.Errorf("%s has died (%s); the last it printed:\n%s", c.Name, how, c.Last())
}

// explain says what to try.
func (d *demo) explain() {
	counters := "  The counters are in memory that Envoy's workers share; Redis is not used.\n"
	if !d.local {
		counters = fmt.Sprintf("  The counters:\n    redis-cli -p %d --scan\n", d.ports[redis].number)
	}
	fmt.Fprintf(d.out, `
Sluice is running. In another terminal:

  An address may send 20 requests at once, then 10 a second:
    curl -i %[1]s/
  A key may send 5 requests at once, then 1 a second, and 100 an hour. The sixth gets a 429:
    for i in 1 2 3 4 5 6; do curl -i -H 'x-api-key: alice' %[1]s/api/orders; done
  No limit:
    curl -i %[1]s/healthz
%[2]s  What the plugin counts:
    curl -s 'http://%[3]s/stats?filter=sluice'

Each request is shown here: method, path, status, decision, duration. Ctrl-C stops everything.

`, "http://"+d.ports[listener].addr(), counters, d.ports[admin].addr())
}
