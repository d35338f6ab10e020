package main

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
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
}

// proxies are the rows of the table.
var proxies = []proxy{
	{withoutWasm, 1},
	{withoutWasm, 4},
	{withoutWasm, 8},
	{anyFilter, 4},
	{anyFilter, 8},
	{shipped, 1},
	{shipped, 4},
	{shipped, 8},
	{throughRelay, 4},
	{throughRelay, 8},
	{threeShared, 4},
	{threeApart, 4},
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

// config is the shipped envoy.yaml, changed as the row's name says.
func (p proxy) config(at place) (*envoyconf.Config, error) {
	c, err := shippedFor(at)
	if err != nil {
		return nil, err
	}
	bridges, _, _ := strings.Cut(envoyconf.Bridge, "/sluice-bridge/")
	switch p.name {
	case withoutWasm:
		c.Remove(httpFilters, "sluice")
		c.Remove(bridges, "sluice-bridge")
	case anyFilter, throughRelay:
		c.Delete(envoyconf.RedisCluster + "/upstream_config")
		c.Delete(bridges)
		if p.name == anyFilter {
			c.SetWasm(filepath.Join(at.root, "bridge", "bridge.wasm"))
		}
	case threeShared, threeApart: // three listeners with policies of their own
		text, _ := c.Get(envoyconf.Limiter + "/configuration/value").(string)
		for n := range 3 {
			name, id := fmt.Sprintf("limited-%d", n), "sluice"
			if p.name == threeApart {
				id = fmt.Sprintf("sluice-%d", n)
			}
			c.CopyListener(name, 0, strings.Replace(text, "per-key", fmt.Sprintf("per-key-%d", n), 1))
			limiter := "static_resources/listeners/" + name + strings.TrimPrefix(envoyconf.Limiter, envoyconf.Listener)
			c.Set(limiter+"/vm_config/vm_id", id)
		}
	}
	return c, nil
}

// settles is how long V8's threads take to end what they do, and the allocator to give back what that
// took: it does so once a second (memory_release_interval in envoy.yaml). What was in use in the last
// five minutes it keeps for as long (-later).
const settles = 3 * time.Second

// footprint are the rows as measured.
type footprint map[proxy]figures

type figures struct {
	seconds  float64 // of CPU, to start
	mb, anon float64 // resident, and the part that is no page of a file
}

// runFootprint measures each proxy in a fresh process a round, and shows or publishes the medians.
func runFootprint(ctx context.Context, root string, o options) error {
	return onBench(ctx, root, func(b *bench, m machine) error {
		before, rounds := measure.Load(), make([]footprint, o.rounds)
		for i := range rounds {
			rounds[i] = footprint{}
			wait, atOnce := settles, 1
			if o.later > 0 {
				wait, atOnce = o.later, len(proxies)
			}
			for some := range slices.Chunk(proxies, atOnce) {
				if err := b.take(ctx, some, wait, rounds[i]); err != nil {
					return err
				}
			}
		}
		t := footprint{}
		for _, p := range proxies {
			median := func(of func(figures) float64) float64 {
				var values []float64
				for _, round := range rounds {
					values = append(values, of(round[p]))
				}
				return measure.Median(values)
			}
			t[p] = figures{ // as they are shown
				math.Round(100*median(func(f figures) float64 { return f.seconds })) / 100,
				math.Round(median(func(f figures) float64 { return f.mb })),
				math.Round(median(func(f figures) float64 { return f.anon })),
			}
		}
		head := fmt.Sprintf("Medians of %d processes, %s. Envoy %s on %d cores of %s. Load average: %s before, %s after.",
			o.rounds, m.Date, m.Envoy, m.Cores, m.CPU, before, measure.Load())
		fmt.Printf("%s\n\n%s", head, t.text())
		if o.publish {
			return t.pages(head).Publish(root, nil)
		}
		return nil
	})
}

// take measures what processes of some proxies have taken and hold, so long after each was ready.
func (b *bench) take(ctx context.Context, some []proxy, wait time.Duration, into footprint) error {
	defer b.stop(len(b.started))
	ends, running := make([]time.Time, len(some)), make([]*envoy, len(some))
	for i, p := range some {
		ports, err := freePorts(2)
		if err != nil {
			return err
		}
		at := place{listener: ports[0], admin: ports[1], root: b.root, workers: p.workers}
		c, err := p.config(at)
		if err != nil {
			return err
		}
		if running[i], err = b.startEnvoy(ctx, "proxy", c, at); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		ends[i] = time.Now().Add(wait)
	}
	for i, e := range running {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Until(ends[i])):
		}
		used, err := e.cpu()
		if err != nil {
			return err
		}
		memory, err := e.usage().MemoryInfoEx()
		if err != nil {
			return e.explain(err)
		}
		into[some[i]] = figures{used, float64(memory.RSS) / 1e6, float64(memory.RSS-memory.Shared) / 1e6}
	}
	return nil
}

const tableHead = "| | workers | CPU to start, s | memory, MB | of that anonymous, MB |\n|---|---:|---:|---:|---:|\n"

// beyond is the memory of a row beyond an Envoy without Wasm, in MB, and toStart the CPU of the shipped
// file beyond such an Envoy's, in seconds.
func (t footprint) beyond(name string) float64 {
	return t[proxy{name, 4}].mb - t[proxy{withoutWasm, 4}].mb
}

func (t footprint) toStart() float64 {
	return t[proxy{shipped, 4}].seconds - t[proxy{withoutWasm, 4}].seconds
}

// text is the table, and sentences that say what it means.
func (t footprint) text() string {
	table := tableHead
	for _, p := range proxies {
		if f, ok := t[p]; ok {
			table += fmt.Sprintf("| %s | %d | %.2f | %.0f | %.0f |\n", p.name, p.workers, f.seconds, f.mb, f.anon)
		}
	}
	grows := func(name string) float64 { return (t[proxy{name, 8}].mb - t[proxy{name, 4}].mb) / 4 }
	// Without its share of an Envoy without Wasm.
	worker := func(name string) float64 { return grows(name) - grows(withoutWasm) }
	configuration := func(name string) float64 { return (t[proxy{name, 4}].mb - t[proxy{shipped, 4}].mb) / 3 }
	return table + fmt.Sprintf(`
- **Beyond an Envoy without Wasm**: %.0f MB and %.1f s of CPU, with 4 workers.
  Through a relay: %.0f MB.
- **A further worker**: %.1f MB. Through a relay: %.1f MB.
- **Of that Envoy's own**, for any Wasm filter: %.0f MB, and %.1f MB a worker for each VM.
- **A further configuration**, such as a second listener's or another policy: %.1f MB where it shares the
  `+"`vm_id`"+`, %.0f MB where it has one of its own.
- **100m of CPU** is a tenth of a core: such a proxy takes some %.0f s to start.
`, t.beyond(shipped), t.toStart(), t.beyond(throughRelay), worker(shipped), worker(throughRelay),
		t.beyond(anyFilter), worker(anyFilter), configuration(threeShared), configuration(threeApart),
		t[proxy{shipped, 4}].seconds*10)
}

// The document that has the table, what stands before it there, and those that have it in a sentence.
const (
	footprintPage   = "docs/sizing.md"
	footprintBegins = "<!-- \"make footprint PUBLISH=1\" writes what follows. -->\n\n"
)

var summaries = []string{"README.md", "docs/comparison.md"}

// pages are the parts of the table that documents show.
func (t footprint) pages(head string) measure.Pages {
	pages := measure.Pages{footprintPage: {
		Begins: footprintBegins, Text: head + "\n\n" + t.text() + "\n",
	}}
	for _, name := range summaries {
		pages[name] = measure.Page{Sentences: []string{
			fmt.Sprintf("%.0f MB and %.1f s of CPU at the start in every proxy", t.beyond(shipped), t.toStart()),
		}}
	}
	return pages
}
