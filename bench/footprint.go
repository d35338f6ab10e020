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

// settles is how long V8's threads take to end what they do, and the allocator to give back what that
// took: it does so once a second (memory_release_interval in envoy.yaml). What was in use in the last
// five minutes it keeps for as long (-later).
const settles = 3 * time.Second

// runFootprint measures each proxy in a fresh process a round, and shows or publishes the medians.
func runFootprint(ctx context.Context, root string, o options) error {
	return onBench(ctx, root, func(b *bench, m machine) error {
		before, rounds := measure.Load(), make([]footprint, o.rounds)
		for i := range rounds {
			wait, atOnce := settles, 1
			if o.later > 0 {
				wait, atOnce = o.later, len(proxies)
			}
			for some := range slices.Chunk(proxies, atOnce) {
				found, err := b.takenBy(ctx, some, wait)
				if err != nil {
					return err
				}
				rounds[i] = append(rounds[i], found...)
			}
		}
		t := medians(rounds)
		head := fmt.Sprintf("Medians of %d processes, %s. Envoy %s on %d cores of %s. Load average: %s before, %s after.",
			o.rounds, m.Date, m.Envoy, m.Cores, m.CPU, before, measure.Load())
		fmt.Printf("%s\n\n%s\n%s", head, t.markdown(), t.sentences())
		if o.publish {
			return t.pages(head).Publish(root, nil)
		}
		return nil
	})
}

// takenBy is what processes of some proxies have taken and hold, so long after each was ready.
func (b *bench) takenBy(ctx context.Context, some []proxy, wait time.Duration) (t footprint, err error) {
	ends := make([]time.Time, len(some))
	running := make([]*envoy, len(some))
	for i, p := range some {
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
		if running[i], err = unwatched.startEnvoy(ctx, b.dir, "proxy", string(text), at); err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		defer running[i].stop()
		ends[i] = time.Now().Add(wait)
	}
	for i, e := range running {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Until(ends[i])):
		}
		used, err := e.cpu()
		if err != nil {
			return nil, err
		}
		memory, err := e.usage().MemoryInfoEx()
		if err != nil {
			return nil, e.explain(err)
		}
		t = append(t, figures{
			some[i].name, some[i].workers, used.Seconds(), float64(memory.RSS) / 1e6, float64(memory.RSS-memory.Shared) / 1e6,
		})
	}
	return t, nil
}

// medians are those of several rounds.
func medians(rounds []footprint) footprint {
	t := slices.Clone(rounds[0])
	for i := range t {
		var seconds, mb, anon []float64
		for _, round := range rounds {
			seconds, mb, anon = append(seconds, round[i].seconds), append(mb, round[i].mb), append(anon, round[i].anon)
		}
		t[i].seconds, t[i].mb, t[i].anon = measure.Median(seconds), measure.Median(mb), measure.Median(anon)
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

// The document that has the table, what stands before it there, and those that have it in a sentence.
const (
	footprintPage   = "docs/sizing.md"
	footprintBegins = "<!-- \"make footprint PUBLISH=1\" writes what follows. -->\n\n"
)

var summaries = []string{"README.md", "docs/comparison.md"}

// pages are the parts of the table that documents show.
func (t footprint) pages(head string) measure.Pages {
	shown := slices.Clone(t)
	for i, r := range shown {
		shown[i].seconds, shown[i].mb, shown[i].anon = math.Round(r.seconds*100)/100, math.Round(r.mb), math.Round(r.anon)
	}
	t = shown
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
