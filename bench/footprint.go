package main

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/measure"
)

// proxy is a configuration of Envoy whose footprint is measured: the CPU time that an Envoy has taken,
// and the memory that it holds, a moment after it is ready and before it has seen a request.
type proxy struct {
	name    string
	workers int
	edit    edit // of the shipped envoy.yaml
}

// proxies are the rows of the table.
var proxies = []proxy{
	{withoutWasm, 1, takeOutWasm},
	{withoutWasm, 4, takeOutWasm},
	{withoutWasm, 8, takeOutWasm},
	{anyFilter, 4, onlyBridge},
	{anyFilter, 8, onlyBridge},
	{shipped, 1, asShipped},
	{shipped, 4, asShipped},
	{shipped, 8, asShipped},
	{throughRelay, 4, takeOutBridge},
	{throughRelay, 8, takeOutBridge},
	{threeShared, 4, further(func(int) string { return "sluice" })},
	{threeApart, 4, further(func(n int) string { return "sluice-" + strconv.Itoa(n) })},
}

// bridges are the filters of the cluster that is Redis.
var bridges, _, _ = strings.Cut(envoyconf.Bridge, "/sluice-bridge/")

func asShipped(*envoyconf.Config, place) {}

func takeOutWasm(c *envoyconf.Config, _ place) {
	c.Remove(httpFilters, "sluice")
	c.Remove(bridges, "sluice-bridge")
}

func takeOutBridge(c *envoyconf.Config, _ place) {
	c.Delete(envoyconf.RedisCluster + "/upstream_config")
	c.Delete(bridges)
}

func onlyBridge(c *envoyconf.Config, at place) {
	takeOutBridge(c, at)
	c.SetWasm(filepath.Join(at.root, "bridge", "bridge.wasm"))
}

// further adds three listeners with policies of their own, in the VMs that id names.
func further(id func(n int) string) edit {
	return func(c *envoyconf.Config, _ place) {
		text, _ := c.Get(envoyconf.Limiter + "/configuration/value").(string)
		for n := range 3 {
			name := "limited-" + strconv.Itoa(n)
			c.CopyListener(name, 0, strings.Replace(text, "per-key", "per-key-"+strconv.Itoa(n), 1))
			limiter := "static_resources/listeners/" + name + strings.TrimPrefix(envoyconf.Limiter, envoyconf.Listener)
			c.Set(limiter+"/vm_config/vm_id", id(n))
		}
	}
}

// runFootprint measures each proxy in a fresh process a round, and shows or publishes the medians. With
// -later it looks at the memory once more.
func runFootprint(ctx context.Context, root string, o options) error {
	return onBench(ctx, root, func(b *bench, m machine) error {
		before, soon, late := measure.Load(), make([][]taken, len(proxies)), make([][]taken, len(proxies))
		for range o.rounds {
			if err := b.startProxies(ctx, o.later, soon, late); err != nil {
				return err
			}
		}
		t := medians(soon)
		head := fmt.Sprintf("Medians of %d processes, %s. Envoy %s on %d cores of %s. Load average: %s before, %s after.",
			o.rounds, m.Date, m.Envoy, m.Cores, m.CPU, before, measure.Load())
		fmt.Printf("%s\n\n%s\n%s\n%s", head, t.markdown(), t.sentences(), t.goals())
		if o.later > 0 {
			t := medians(late)
			fmt.Printf("\nMemory %s after /ready:\n\n%s\n%s\n%s", o.later, t.markdown(), t.sentences(), t.goals())
		}
		if o.publish {
			return t.pages(head).Publish(root, nil)
		}
		return nil
	})
}

// settles is how long V8's threads take to end what they do, and the allocator to give back what that
// took: it does so once a second (memory_release_interval in envoy.yaml). What was in use in the last
// five minutes it keeps for as long (-later).
const settles = 3 * time.Second

// startProxies adds what a process of each proxy has taken. They start one after the other; those that
// are looked at later all stay until then.
func (b *bench) startProxies(ctx context.Context, later time.Duration, soon, late [][]taken) error {
	ready := make([]time.Time, len(proxies))
	running := make([]*envoy, len(proxies))
	for i, p := range proxies {
		e, err := b.startProxy(ctx, p)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		defer e.stop()
		running[i], ready[i] = e, time.Now()
		t, err := e.takenAt(ctx, ready[i].Add(settles))
		if err != nil {
			return err
		}
		soon[i] = append(soon[i], t)
		if later == 0 {
			e.stop()
		}
	}
	for i := 0; later > 0 && i < len(running); i++ {
		t, err := running[i].takenAt(ctx, ready[i].Add(later))
		if err != nil {
			return err
		}
		t.seconds = soon[i][len(soon[i])-1].seconds // of the start
		late[i] = append(late[i], t)
	}
	return nil
}

func (b *bench) startProxy(ctx context.Context, p proxy) (*envoy, error) {
	ports, err := freePorts(2)
	if err != nil {
		return nil, err
	}
	at := place{listener: ports[0], admin: ports[1], root: b.root, workers: p.workers}
	c, err := shippedFor(at)
	if err != nil {
		return nil, err
	}
	p.edit(c, at)
	text, err := c.YAML()
	if err != nil {
		return nil, err
	}
	return unwatched.startEnvoy(ctx, b.dir, "proxy", string(text), at)
}

// taken is what a process has taken and holds.
type taken struct {
	seconds  float64 // of CPU
	mb, anon float64 // resident, and the part that is no page of a file
}

// takenAt is what a process has taken by a time.
func (p *subprocess) takenAt(ctx context.Context, when time.Time) (taken, error) {
	select {
	case <-ctx.Done():
		return taken{}, ctx.Err()
	case <-time.After(time.Until(when)):
	}
	used, err := p.cpu()
	if err != nil {
		return taken{}, err
	}
	memory, err := p.usage().MemoryInfoEx()
	if err != nil {
		return taken{}, p.explain(err)
	}
	return taken{used.Seconds(), float64(memory.RSS) / 1e6, float64(memory.RSS-memory.Shared) / 1e6}, nil
}

// medians are the results of all proxies.
func medians(samples [][]taken) (t footprint) {
	for i, p := range proxies {
		median := func(of func(taken) float64) float64 {
			var values []float64
			for _, each := range samples[i] {
				values = append(values, of(each))
			}
			return measure.Median(values)
		}
		t = append(t, figures{
			p.name, p.workers,
			median(func(t taken) float64 { return t.seconds }),
			median(func(t taken) float64 { return t.mb }),
			median(func(t taken) float64 { return t.anon }),
		})
	}
	return t
}

// The rows, by their names.
const (
	withoutWasm  = "without Wasm"
	anyFilter    = "a filter of 1.6 KB that does nothing"
	shipped      = "`envoy.yaml`"
	throughRelay = "`envoy.yaml` through a relay, without a bridge"
	threeShared  = "3 more configurations that share its `vm_id`"
	threeApart   = "3 more configurations, each with a `vm_id`"
)

// figures are a row as measured.
type figures struct {
	name     string
	workers  int
	seconds  float64 // of CPU, to start
	mb, anon float64 // resident, and the part that is no page of a file
}

// footprint are all rows of the table.
type footprint []figures

func (t footprint) row(name string, workers int) figures {
	for _, r := range t {
		if r.name == name && r.workers == workers {
			return r
		}
	}
	return figures{}
}

const tableHead = "| | workers | CPU to start, s | memory, MB | of that anonymous, MB |\n|---|---:|---:|---:|---:|\n"

func (t footprint) markdown() string {
	var b strings.Builder
	b.WriteString(tableHead)
	for _, r := range t {
		fmt.Fprintf(&b, "| %s | %d | %.2f | %.0f | %.0f |\n", r.name, r.workers, r.seconds, r.mb, r.anon)
	}
	return b.String()
}

// beyond is the memory of a row beyond an Envoy without Wasm, in MB.
func (t footprint) beyond(name string) float64 { return t.row(name, 4).mb - t.row(withoutWasm, 4).mb }

// toStart is the CPU of the shipped file beyond such an Envoy's, in seconds.
func (t footprint) toStart() float64 {
	return t.row(shipped, 4).seconds - t.row(withoutWasm, 4).seconds
}

// worker is the memory of a row's further worker, in MB, without its share of an Envoy without Wasm.
func (t footprint) worker(name string) float64 {
	grows := func(name string) float64 { return (t.row(name, 8).mb - t.row(name, 4).mb) / 4 }
	return grows(name) - grows(withoutWasm)
}

// configuration is the memory of a further configuration, in MB.
func (t footprint) configuration(name string) float64 {
	return (t.row(name, 4).mb - t.row(shipped, 4).mb) / 3
}

// sentences say what the table means.
func (t footprint) sentences() string {
	s := t.row(shipped, 4)
	return fmt.Sprintf(`- **Beyond an Envoy without Wasm**: %.0f MB and %.1f s of CPU, with 4 workers.
  Through a relay: %.0f MB.
- **A further worker**: %.1f MB. Through a relay: %.1f MB.
- **Of that Envoy's own**, for any Wasm filter: %.0f MB, and %.1f MB a worker for each VM.
- **A further configuration**, such as a second listener's or another policy: %.1f MB where it shares the
  `+"`vm_id`"+`, %.0f MB where it has one of its own.
- **100m of CPU** is a tenth of a core: such a proxy takes some %.0f s to start.
`, t.beyond(shipped), t.toStart(), t.beyond(throughRelay), t.worker(shipped), t.worker(throughRelay),
		t.beyond(anyFilter), t.worker(anyFilter), t.configuration(threeShared), t.configuration(threeApart), s.seconds*10)
}

// goals holds the table to what a proxy may cost.
func (t footprint) goals() string {
	var b strings.Builder
	for _, g := range []struct {
		what      string
		got, most float64
	}{
		{"CPU to start with 4 workers, s", t.row(shipped, 4).seconds, 1.2},
		{"memory beyond an Envoy without Wasm, MB", t.beyond(shipped), 50},
		{"the same through a relay, MB", t.beyond(throughRelay), 50},
		{"memory of a further worker, MB", t.worker(shipped), 2},
		{"the same through a relay, MB", t.worker(throughRelay), 2},
		{"memory of a further configuration with the same vm_id, MB", t.configuration(threeShared), 0.5},
	} {
		word := "met"
		if g.got > g.most {
			word = "missed"
		}
		fmt.Fprintf(&b, "%s: %.2f (want at most %g): %s\n", g.what, g.got, g.most, word)
	}
	return b.String()
}

// The document that has the table, what stands before it there, and those that have it in a sentence.
const (
	footprintPage   = "docs/sizing.md"
	footprintBegins = "<!-- \"make footprint PUBLISH=1\" writes what follows. -->\n\n"
)

var summaries = []string{"README.md", "docs/comparison.md"}

// rounded has the figures as the table shows them, so that a reader who computes what follows from
// them gets the same.
func (t footprint) rounded() footprint {
	shown := slices.Clone(t)
	for i, r := range shown {
		shown[i].seconds, shown[i].mb, shown[i].anon = math.Round(r.seconds*100)/100, math.Round(r.mb), math.Round(r.anon)
	}
	return shown
}

// pages are the parts of the table that documents show.
func (t footprint) pages(head string) measure.Pages {
	t = t.rounded()
	pages := measure.Pages{footprintPage: {
		Begins: footprintBegins, Text: head + "\n\n" + t.markdown() + "\n" + t.sentences() + "\n",
	}}
	for _, name := range summaries {
		pages[name] = measure.Page{Sentences: []string{
			fmt.Sprintf("%.0f MB and %.1f s of CPU at the start in every proxy", t.beyond(shipped), t.toStart()),
		}}
	}
	return pages
}
