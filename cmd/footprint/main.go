// Footprint measures what Sluice costs a proxy before it has seen a request: the CPU time that an
// Envoy has taken, and the memory that it holds, a moment after it is ready. Each row is a fresh
// process; the rows take turns, and of each the median is shown. It prints a table in Markdown.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/measure"
)

func main() {
	rounds := flag.Int("rounds", 3, "processes of each row")
	wasm := flag.String("wasm", "build/sluice.wasm", "the plugin")
	publish := flag.Bool("publish", false, "write the results into the documents")
	later := flag.Duration("later", 0, "look at the memory once more, so long after an Envoy is ready")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	m := measurement{wasm: *wasm, later: *later}
	if err := m.run(ctx, *rounds, *publish); err != nil {
		fmt.Fprintln(os.Stderr, "footprint:", err)
		os.Exit(1)
	}
}

// row is a configuration of Envoy to measure.
type row struct {
	name    string
	workers int
	edit    func(c *envoyconf.Config)
}

// rows are the measurements, all of the shipped envoy.yaml. Ports from 20 on are for further
// listeners.
func rows() []row {
	bridges, _, _ := strings.Cut(envoyconf.Bridge, "/sluice-bridge/")
	none := func(c *envoyconf.Config) {
		c.Remove(envoyconf.ConnectionManager+"/http_filters", "sluice")
		c.Remove(bridges, "sluice-bridge")
	}
	all := func(*envoyconf.Config) {}
	relay := func(c *envoyconf.Config) {
		c.Delete(envoyconf.RedisCluster + "/upstream_config")
		c.Delete(bridges)
	}
	least := func(c *envoyconf.Config) {
		relay(c)
		c.SetWasm("bridge/bridge.wasm")
	}
	file := func(c *envoyconf.Config) {
		path, _ := c.Get(envoyconf.Limiter + "/vm_config/code/local/filename").(string)
		c.SetBridge(path)
	}
	further := func(id func(n int) string) func(c *envoyconf.Config) {
		return func(c *envoyconf.Config) {
			text, _ := c.Get(envoyconf.Limiter + "/configuration/value").(string)
			for n := range 3 {
				name := "limited-" + strconv.Itoa(n)
				c.CopyListener(name, 0, strings.Replace(text, "per-key", "per-key-"+strconv.Itoa(n), 1))
				limiter := "static_resources/listeners/" + name + strings.TrimPrefix(envoyconf.Limiter, envoyconf.Listener)
				c.Set(limiter+"/vm_config/vm_id", id(n))
			}
		}
	}
	return []row{
		{withoutWasm, 1, none},
		{withoutWasm, 4, none},
		{withoutWasm, 8, none},
		{anyFilter, 4, least},
		{anyFilter, 8, least},
		{shipped, 1, all},
		{shipped, 4, all},
		{shipped, 8, all},
		{relayed, 4, relay},
		{relayed, 8, relay},
		{oneFile, 4, file},
		{threeShared, 4, further(func(int) string { return "sluice" })},
		{threeApart, 4, further(func(n int) string { return "sluice-" + strconv.Itoa(n) })},
	}
}

// sample is one process: what it has taken and holds.
type sample struct {
	cpu            time.Duration
	anonMB, restMB float64 // of its memory: its own, and pages of files
}

// measurement is how rows are measured.
type measurement struct {
	wasm  string
	later time.Duration // 0: memory is looked at once
}

func (m measurement) run(ctx context.Context, rounds int, publish bool) error {
	samples, late := make([][]sample, len(rows())), make([][]sample, len(rows()))
	before := measure.Load()
	for range rounds {
		if err := m.round(ctx, samples, late); err != nil {
			return err
		}
	}
	t := medians(samples)
	head := fmt.Sprintf("Medians of %d processes, %s. %s Load average: %s before, %s after.", rounds,
		time.Now().UTC().Format(time.DateOnly), machine(ctx), before, measure.Load())
	fmt.Printf("%s\n\n%s\n%s\n%s", head, t.markdown(), t.sentences(), t.goals())
	if m.later > 0 {
		t := medians(late)
		fmt.Printf("\nMemory %s after /ready:\n\n%s\n%s\n%s", m.later, t.markdown(), t.sentences(), t.goals())
	}
	if publish {
		return t.pages(head).Publish(".", nil)
	}
	return nil
}

// round adds a sample to each row. The Envoys start one after the other; those that are looked at
// later all stay until then.
func (m measurement) round(ctx context.Context, samples, late [][]sample) error {
	var running []*envoy
	defer func() {
		for _, e := range running {
			e.stop()
		}
	}()
	for i, r := range rows() {
		e, err := r.start(ctx, m.wasm)
		if err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
		s, err := e.lookAfter(ctx, settles)
		if m.later == 0 {
			e.stop()
		} else {
			running = append(running, e)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
		samples[i] = append(samples[i], s)
	}
	for i, e := range running {
		s, err := e.lookAfter(ctx, m.later)
		if err != nil {
			return fmt.Errorf("%s: %w", rows()[i].name, err)
		}
		s.cpu = samples[i][len(samples[i])-1].cpu // of the start
		late[i] = append(late[i], s)
	}
	return nil
}

// medians are the results of all rows.
func medians(samples [][]sample) (t table) {
	for i, r := range rows() {
		t = append(t, result{
			r.name, r.workers,
			median(samples[i], func(s sample) float64 { return s.cpu.Seconds() }),
			median(samples[i], func(s sample) float64 { return s.anonMB + s.restMB }),
			median(samples[i], func(s sample) float64 { return s.anonMB }),
		})
	}
	return t
}

// settles is how long V8's threads take to end what they do, and the allocator to give back what that
// took: it does so once a second (memory_release_interval in envoy.yaml). What was in use in the last
// five minutes it keeps for as long (-later).
const settles = 3 * time.Second

func median(samples []sample, of func(sample) float64) float64 {
	var values []float64
	for _, s := range samples {
		values = append(values, of(s))
	}
	return measure.Median(values)
}

// machine names what the processes ran on.
func machine(ctx context.Context) string {
	info, _ := os.ReadFile("/proc/cpuinfo")
	_, model, _ := strings.Cut(string(info), "model name")
	model, _, _ = strings.Cut(strings.TrimLeft(model, "\t :"), "\n")
	out, _ := exec.CommandContext(ctx, "envoy", "--version").Output()
	version := ""
	if parts := strings.Split(string(out), "/"); len(parts) > 3 {
		version = parts[len(parts)-4]
	}
	return fmt.Sprintf("Envoy %s on %d cores of %s.", version, runtime.NumCPU(), model)
}
