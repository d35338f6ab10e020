package envoytest

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/process"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// startLimit bounds the wait for Envoy to serve, stopLimit that for its end;
// a loaded machine may take seconds to compile the plugin.
const (
	startLimit = 60 * time.Second
	stopLimit  = 20 * time.Second
)

// Options are a test's changes to the shipped configuration.
type Options struct {
	Plugin string // the limiter's configuration, JSON; "" leaves the shipped one
	// Beside are configurations of further listeners, by their names. All are in
	// the same VMs.
	Beside   map[string]string
	Redis    []string // addresses, "host:port"; none: the plugin has no Redis
	Route    Route    // from the plugin to Redis
	Upstream string   // address
	Workers  int      // worker threads; 2 unless set
	Port     int      // of the limited listener; a free one unless set
	Dynamic  bool     // the listeners come from a file, for Reload
	// Discovered has the limiter's configuration come from a file, for Discover.
	Discovered bool
	Quiet      bool // no access log
	// File is another shipped file than envoy.yaml, below the repository's root. Then
	// addresses, ports and the plugin's file are set, and nothing else but what Edit does.
	File string
	Text string   // such a file itself, in place of its name
	Env  []string // added to Envoy's environment, "NAME=value"
	// Edit makes further changes.
	Edit func(*envoyconf.Config)
}

// Route is how the plugin's commands reach Redis.
type Route int

// The routes.
const (
	Direct  Route = iota // a connection to the one Redis
	Proxy                // through redis_proxy to one or more Redis
	Cluster              // through redis_proxy to a Redis Cluster
)

// Envoy is a running Envoy. Its methods may be called from any goroutine,
// except Stop, Reload and Discover.
type Envoy struct {
	*testenv.Process

	URL   string // of the limited listener, "http://127.0.0.1:port"
	Addr  string // of the same, "127.0.0.1:port"
	Admin string // "http://127.0.0.1:port"
	// Beside are the URLs of the further listeners, by their names.
	Beside map[string]string

	t       testing.TB
	opts    Options
	dir     string         // of its configuration and access log
	port    int            // of the listener
	admin   int            // port
	beside  map[string]int // ports of the further listeners
	version int            // of the listeners', or the filter's, configuration
	relay   *Envoy         // on the way to Redis; nil: none
	stopped bool

	mu      sync.Mutex
	entries []Entry // of the access log
	read    int     // bytes of it that they are
}

// Start runs Envoy and returns when it serves.
func Start(t testing.TB, opts Options) *Envoy {
	t.Helper()
	e := Launch(t, opts)
	e.await()
	return e
}

// await returns when Envoy serves.
func (e *Envoy) await() {
	e.t.Helper()
	addr := strings.TrimPrefix(e.Admin, "http://")
	e.Await(startLimit, func(ctx context.Context) error { return process.EnvoyReady(ctx, addr) })
}

// Restart runs Envoy again after Stop or Kill, with the same configuration and ports.
func (e *Envoy) Restart() {
	e.t.Helper()
	e.run()
	e.await()
}

// Launch runs Envoy and does not wait for it, as it may refuse its
// configuration.
func Launch(t testing.TB, opts Options) *Envoy {
	t.Helper()
	if opts.Workers == 0 {
		opts.Workers = 2
	}
	if opts.Port == 0 {
		opts.Port = testenv.FreePort(t)
	}
	e := &Envoy{t: t, opts: opts, dir: t.TempDir(), port: opts.Port, admin: testenv.FreePort(t)}
	e.Addr = fmt.Sprintf("127.0.0.1:%d", e.port)
	e.URL = "http://" + e.Addr
	e.Admin = fmt.Sprintf("http://127.0.0.1:%d", e.admin)
	e.Beside, e.beside = map[string]string{}, map[string]int{}
	for name := range opts.Beside {
		e.beside[name] = testenv.FreePort(t)
		e.Beside[name] = fmt.Sprintf("http://127.0.0.1:%d", e.beside[name])
	}
	e.writeConfig()
	e.run()
	return e
}

// run starts the process. Hot restart would leave shared memory behind. With drain
// strategy "immediate" each answer after a reload closes its connection.
func (e *Envoy) run() {
	e.t.Helper()
	e.Process = testenv.Run(e.t, e.opts.Env, testenv.Tool(e.t, "envoy"),
		"-c", e.configPath(), "--concurrency", fmt.Sprint(e.opts.Workers), "--disable-hot-restart",
		"--drain-time-s", "3", "--drain-strategy", "immediate", "--file-flush-interval-msec", "20", "--log-level", "warning",
		"--component-log-level", "wasm:info")
	e.stopped = false
	e.t.Cleanup(e.checkEnd)
}

func (e *Envoy) configPath() string { return filepath.Join(e.dir, "envoy.yaml") }

// Stop ends Envoy in good order, and returns when it has gone.
func (e *Envoy) Stop() {
	e.t.Helper()
	e.stopped = true
	if !e.Process.Stop(stopLimit) {
		e.t.Errorf("envoy runs %v after SIGTERM", stopLimit)
	}
}

// Kill ends Envoy at once, as kill -9 does.
func (e *Envoy) Kill() {
	e.stopped = true
	e.Process.Kill()
}

// crash is a log line of a crash: Envoy's own, a panic that TinyGo prints, and what
// proxy-wasm-cpp-host says of a guest that traps.
var crash = regexp.MustCompile(`.*(?:Caught Segmentation fault|Caught Aborted|assert failure|panic:|RuntimeError|` +
	`in-VM backtrace).*`)

// checkEnd stops Envoy and fails the test if it, or a VM in it, has crashed.
func (e *Envoy) checkEnd() {
	if !e.Ended() {
		e.Stop()
	} else if !e.stopped {
		e.t.Error("envoy has ended by itself")
	}
	for _, line := range crash.FindAllString(e.Log(), -1) {
		e.t.Errorf("envoy logged a crash: %s", line)
	}
}
