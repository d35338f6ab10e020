package main

import (
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/wasmhost"
)

// Every case of this package runs in two worlds: as ordinary Go, in an Envoy
// written for these tests (native_test.go), and as the built wasm in
// internal/wasmhost. eachWorld runs it in both; a wasm that is not there fails.
func eachWorld(t *testing.T, test func(t *testing.T, w *worker)) {
	t.Helper()
	t.Run("native", func(t *testing.T) { test(t, newWorker(t, newNativeGuest)) })
	t.Run("wasm", func(t *testing.T) { test(t, newWorker(t, newWasmGuest)) })
}

// guest is the plugin in one worker of an Envoy.
type guest interface {
	start(config string) (filter, error)
	logs() []wasmhost.LogLine
	calls() map[string]int // host calls by name
}

// filter is a plugin context: one configuration.
type filter interface {
	newStream() httpStream
	Tick()
	TickPeriod() time.Duration
	Close()
}

// httpStream is one request on its way through the filter. Its methods are
// those of wasmhost.Stream.
type httpStream interface {
	RequestHeaders(headers wasmhost.Pairs, endOfStream bool) wasmhost.Action
	RequestBody(body []byte, endOfStream bool) wasmhost.Action
	RequestPaused() bool
	ResponseHeaders(headers wasmhost.Pairs, endOfStream bool) wasmhost.Action
	ResponseBody(body []byte, endOfStream bool) wasmhost.Action
	End()
	// seen has what the filter let pass or set, in its exported fields.
	seen() *wasmhost.Stream
}

// worker is one worker of an Envoy. What is around the plugin is set before the
// first configuration is loaded.
type worker struct {
	clock      *clock
	clusters   map[string]wasmhost.Cluster // by what names them, see connect
	env        map[string]string
	properties wasmhost.Properties // of every request
	before     func(call string)   // if not nil, runs before each host call
	config     string              // for tests whose parts share one
	envoy      *wasmhost.Envoy     // what wasm workers share
	shared     *sharedMemory       // what native workers share
	metrics    sharedMetrics       // likewise

	t        *testing.T
	began    time.Time
	newGuest func(*worker) guest
	guest    guest // nil until something is loaded
	loaded   []*instance
}

func newWorker(t *testing.T, newGuest func(*worker) guest) *worker {
	return &worker{
		clock:    &clock{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)},
		clusters: map[string]wasmhost.Cluster{},
		env:      map[string]string{},
		envoy:    wasmhost.NewEnvoy(),
		shared:   newSharedMemory(),
		metrics:  sharedMetrics{},
		t:        t,
		began:    time.Now(),
		newGuest: newGuest,
	}
}

// connect makes a cluster what the plugin reaches by the name "redis".
func (w *worker) connect(c wasmhost.Cluster) {
	w.clusters["redis"] = c
	w.clusters[string(grpcService("redis"))] = c
}

// setenv gives the VM an environment variable.
func (w *worker) setenv(name, value string) {
	w.env[name] = value
}

// sibling is another worker of the same Envoy.
func (w *worker) sibling() *worker {
	s := *w
	s.guest, s.loaded = nil, nil
	return &s
}

// clock is both of the plugin's clocks. It stands still until a test moves it.
type clock struct{ now time.Time }

func (c *clock) read() time.Time         { return c.now }
func (c *clock) advance(d time.Duration) { c.now = c.now.Add(d) }

// load starts the plugin with a configuration that must be good. It may be
// called again, as a reload does.
func (w *worker) load(config string) *instance {
	w.t.Helper()
	f, err := w.start(config)
	if err != nil {
		w.t.Fatalf("%v; the log: %q", err, w.logs())
	}
	i := &instance{worker: w, filter: f}
	w.loaded = append(w.loaded, i)
	return i
}

func (w *worker) start(config string) (filter, error) {
	if w.guest == nil {
		w.guest = w.newGuest(w)
	}
	return w.guest.start(config)
}

// logs is every line that was logged, with its level: "warn sluice: ...".
func (w *worker) logs() (lines []string) {
	levels := [...]string{"trace", "debug", "info", "warn", "error", "critical"}
	for _, line := range w.guest.logs() {
		lines = append(lines, levels[line.Level]+" "+line.Text)
	}
	return lines
}

// logged says whether a line of the log holds a text.
func (w *worker) logged(text string) bool {
	return strings.Contains(strings.Join(w.logs(), "\n"), text)
}

// callsOf is the host calls that f makes.
func (w *worker) callsOf(f func()) map[string]int {
	before := maps.Clone(w.guest.calls())
	f()
	made := map[string]int{}
	for name, n := range w.guest.calls() {
		if n -= before[name]; n > 0 {
			made[name] = n
		}
	}
	return made
}

// instance is one loaded configuration.
type instance struct {
	filter

	worker *worker
	period time.Duration // of the timer that runs
	due    time.Time     // its next tick
}

// wait passes time, and ticks as the plugin has asked for.
func (i *instance) wait(d time.Duration) {
	c := i.worker.clock
	end := c.now.Add(d)
	for i.arm(); i.period > 0 && !i.due.After(end); i.arm() {
		c.now = i.due
		i.due = i.due.Add(i.period)
		i.Tick()
	}
	c.now = end
}

// arm starts the timer anew if its period was changed.
func (i *instance) arm() {
	if p := i.TickPeriod(); p != i.period {
		i.period, i.due = p, i.worker.clock.now.Add(p)
	}
}

// readFile is the text of a file.
func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
