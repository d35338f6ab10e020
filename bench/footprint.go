package main

import (
	"context"
	"fmt"
	"path/filepath"
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
