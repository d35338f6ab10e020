package main

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/internal/wasmhost"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// Every case of this package runs in two worlds: as ordinary Go (native_test.go)
// and as the built wasm, both in internal/wasmhost, which behaves as Envoy does.
// eachWorld runs it in both; a wasm that is not there fails.
func eachWorld(t *testing.T, test func(t *testing.T, w *worker)) {
	t.Helper()
	for name, world := range map[string]world{"native": native, "wasm": wasm} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newWorker(t, world))
		})
	}
}

// world says how the plugin runs: what its Host needs for that.
type world func(w *worker, options *wasmhost.Options)

func native(w *worker, options *wasmhost.Options) {
	options.Native = func(h *wasmhost.Host) wasmhost.Guest { return newNativeGuest(w.t, h, w.chance) }
}

func wasm(w *worker, options *wasmhost.Options) { options.Wasm = testenv.Wasm(w.t) }

// worker is one worker of an Envoy. What is around the plugin is set before the
// first configuration is loaded.
type worker struct {
	wasmhost.Options // but for the next two

	clusters map[string]wasmhost.Cluster // by what names them, see connect
	envoy    *wasmhost.Envoy             // what workers share
	clock    *clock
	chance   rand.Source // of the plugin as Go
	// answersTrial makes a Redis in memory answer what the plugin asks by itself.
	answersTrial bool

	t      *testing.T
	world  world
	redis  *twinRedis     // nil: none was started
	host   *wasmhost.Host // nil until something is loaded
	loaded []*instance
}

func newWorker(t *testing.T, world world) *worker {
	c := &clock{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	return &worker{
		Options: wasmhost.Options{
			VMID: "sluice", Env: map[string]string{}, Properties: wasmhost.Properties{}, Now: c.read,
		},
		clock:    c,
		clusters: map[string]wasmhost.Cluster{},
		envoy:    wasmhost.NewEnvoy(),
		chance:   rand.NewPCG(rand.Uint64(), 0),
		t:        t,
		world:    world,
	}
}

// connect makes a cluster what the plugin reaches by the name "redis".
func (w *worker) connect(c wasmhost.Cluster) {
	w.clusters[string(grpcService("redis"))] = c
}

// sibling is another worker of the same Envoy.
func (w *worker) sibling() *worker {
	s := *w
	s.host, s.loaded = nil, nil
	return &s
}

// clock is both of the plugin's clocks. It stands still until a test moves it.
type clock struct{ now time.Time }

func (c *clock) read() time.Time         { return c.now }
func (c *clock) advance(d time.Duration) { c.now = c.now.Add(d) }

// load starts the plugin with a configuration that must be good. It may be
// called again, as a reload does.
func (w *worker) load(text string) *instance {
	w.t.Helper()
	p, err := w.start(text)
	if err != nil {
		w.t.Fatalf("%v; the log: %q; the configuration: %s", err, w.logs(), text)
	}
	if w.redis != nil {
		cfg, err := config.Parse([]byte(text))
		testenv.OK(w.t, err)
		rules, err := rule.Compile(cfg, simExpressions{})
		testenv.OK(w.t, err)
		w.redis.Know(rules)
	}
	i := &instance{worker: w, Plugin: p}
	w.loaded = append(w.loaded, i)
	if w.answersTrial {
		// A Redis in a test's hand answers what a worker asks by itself, with its first tick, so that the test sees
		// only what its requests cause.
		m := w.clusters[string(grpcService("redis"))].(*wasmhost.Memory)
		x := i.NewStream() // a worker that serves no requests does not ask
		i.Tick()
		x.End()
		if len(m.Conns) > 0 { // not every worker asks
			replyToTrial(m.Last())
		}
	}
	return i
}

// replyToTrial answers the trial, and then how this Redis is: it does not say.
func replyToTrial(c *wasmhost.Conn) {
	for sent := c.Take(); len(sent) > 0; sent = c.Take() {
		infos, scripts := bytes.Count(sent, []byte("\r\nINFO\r\n")), bytes.Count(sent, []byte("\r\nEVAL\r\n"))
		c.Reply(strings.Repeat("$-1\r\n", infos) + strings.Repeat("+OK\r\n", scripts))
	}
}

// start gives a configuration to a VM, or its native twin. What Envoy would not put up with
// fails the test, and so does a call on a context that is not there.
func (w *worker) start(config string) (*wasmhost.Plugin, error) {
	w.t.Helper()
	if w.host == nil {
		options := w.Options
		options.Clusters, options.Envoy = w.clusters, w.envoy
		w.world(w, &options)
		h := wasmhost.Start(w.t, options)
		w.t.Cleanup(func() {
			if h.Strays > 0 {
				w.t.Errorf("%d host calls for contexts that are gone", h.Strays)
			}
		})
		w.host = h
	}
	return w.host.StartPlugin(config)
}

// aboutVersion is the first line of an Envoy's log.
const aboutVersion = "info sluice: version dev"

// logs is every line that was logged, with its level: "warn sluice: ...", but for aboutVersion.
func (w *worker) logs() (lines []string) {
	levels := [...]string{"trace", "debug", "info", "warn", "error", "critical"}
	for _, line := range w.host.Logs {
		if text := levels[line.Level] + " " + line.Text; text != aboutVersion {
			lines = append(lines, text)
		}
	}
	return lines
}

// expectLogs wants as many lines in the log as there are beginnings, each with its
// own.
func (w *worker) expectLogs(beginnings ...string) {
	w.t.Helper()
	if logs := w.logs(); !slices.EqualFunc(logs, beginnings, strings.HasPrefix) {
		w.t.Errorf("logged %q, want lines that begin with %q", logs, beginnings)
	}
}

// logged reports whether a line of the log holds a text.
func (w *worker) logged(text string) bool {
	return strings.Contains(strings.Join(w.logs(), "\n"), text)
}

// callsOf is the host calls that f makes.
func (w *worker) callsOf(f func()) map[string]int {
	clear(w.host.Calls)
	f()
	return maps.Clone(w.host.Calls)
}

// instance is one loaded configuration.
type instance struct {
	*wasmhost.Plugin

	worker *worker
	period time.Duration // of the timer that runs
	due    time.Time     // its next tick
	ticked func()        // if not nil, runs after each tick
}

// wait passes time, and ticks as the plugin has asked for.
func (i *instance) wait(d time.Duration) {
	c := i.worker.clock
	end := c.now.Add(d)
	for i.arm(); i.period > 0 && !i.due.After(end); i.arm() {
		c.now = i.due
		i.due = i.due.Add(i.period)
		i.Tick()
		if i.ticked != nil {
			i.ticked()
		}
	}
	c.now = end
}

// arm starts the timer anew if its period was changed.
func (i *instance) arm() {
	if p := i.TickPeriod(); p != i.period {
		i.period, i.due = p, i.worker.clock.now.Add(p)
	}
}
