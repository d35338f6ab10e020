// Bench measures Sluice and what users would pick instead: requests a second,
// latency, CPU time, Redis commands and memory of Envoy without a limiter, of
// Sluice in its modes, of Envoy's ratelimit filter with the service of
// github.com/envoyproxy/ratelimit, and of Envoy's local_ratelimit, all on this
// machine in one run. "make bench" runs it; docs/benchmarks.md explains it.
//
// Goals are reported, never enforced: the exit status is 1 only when something
// could not be measured.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

type options struct {
	rounds, seconds, rate int
	root, out             string
	command               string
	before                string
	calls, scenes         bool
	count                 string
	check, publish        bool
}

func main() {
	var o options
	flag.IntVar(&o.rounds, "rounds", 5, "how often each setup is measured")
	flag.IntVar(&o.seconds, "seconds", 4, "length of one measurement")
	flag.IntVar(&o.rate, "rate", 2000, "requests a second of the open loop")
	flag.StringVar(&o.root, "root", "..", "directory of the repository")
	flag.StringVar(&o.out, "out", "results/latest", "the results' files, without .md, .json and .svg")
	flag.StringVar(&o.before, "before", "", "another sluice.wasm, to compare with this one, and nothing else")
	flag.BoolVar(&o.calls, "calls", false, "measure what host calls cost, and nothing else")
	flag.BoolVar(&o.scenes, "scenes", false, "measure three more situations: many identities, Redis far away, Redis saves")
	flag.StringVar(&o.count, "count", "", "count the instructions of some setups (sluice,none or all), and nothing else")
	flag.BoolVar(&o.check, "check", false, "with -count: hold the usual request to what is recorded")
	flag.BoolVar(&o.publish, "publish", false, "keep the result as the one that the documents show, on a quiet machine")
	show := flag.String("show", "", "measure nothing: have the documents show this results file, in JSON")
	three := flag.String("three", "", "measure nothing: write to this directory what three-machines.sh starts")
	store := flag.String("store", "127.0.0.1", "with -three: the address of Redis, the service and the upstream")
	flag.StringVar(&o.command, "command", "go run . "+strings.Join(os.Args[1:], " "), "how the results say they were made")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	act := func() error { return run(ctx, o) }
	if o.count != "" {
		act = func() error { return runCount(ctx, o) }
	}
	if *three != "" {
		act = func() error { return writeThree(ctx, o.root, *three, *store) }
	}
	if *show != "" {
		act = func() error { return republish(*show, o.root) }
	}
	if err := act(); err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// closedLoads are the closed loops.
var closedLoads = []load{{id: mainLoad, connections: 16}, {id: crowdLoad, connections: 64}}

func run(ctx context.Context, o options) error {
	if o.rounds < 1 || o.seconds < 1 || o.rate < 1 {
		return fmt.Errorf("%d rounds of %d s, %d requests/s: want at least 1 each", o.rounds, o.seconds, o.rate)
	}
	if o.publish {
		if err := o.publishable(); err != nil {
			return err
		}
	}
	root, err := filepath.Abs(o.root)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "sluice-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	r := report{
		Command: o.command, Rounds: o.rounds, Seconds: o.seconds, Rate: o.rate, setups: setups(),
		scenes: scenes(o.rate),
	}
	if o.before != "" {
		if o.before, err = filepath.Abs(o.before); err != nil {
			return err
		}
		r.setups, r.scenes = r.beside(o.before), nil
	}
	switch {
	case o.calls:
		r.setups, r.scenes = nil, nil
	case !o.scenes:
		r.scenes = nil
	}
	if err := r.fill(ctx, root, dir, o); err != nil {
		return err
	}
	if err := r.write(o.out); err != nil || !o.publish {
		return err
	}
	return r.publish(root)
}

// republish has the documents show results that were written before.
func republish(from, root string) error {
	r, err := readRun(from)
	if err != nil {
		return err
	}
	return r.publish(root)
}

// watched is for how long a run that is to be published looks at the machine before it begins.
const watched = 5 * time.Second

// fill makes the measurements, those of host calls if asked to.
func (r *report) fill(ctx context.Context, root, dir string, o options) error {
	b, err := start(ctx, root, dir)
	defer b.stop()
	if err != nil {
		return err
	}
	if r.Machine, err = b.describe(ctx); err != nil {
		return err
	}
	if o.publish {
		if err := b.watch(ctx, watched); err != nil {
			return fmt.Errorf("nothing is published: %w", err)
		}
	}
	p := plan{
		quiet:   o.publish,
		setups:  r.setups,
		warmUp:  closedLoads[0],
		loads:   append(slices.Clone(closedLoads), load{id: latencyLoad, rate: r.Rate}),
		rounds:  r.Rounds,
		seconds: r.Seconds,
	}
	r.Results = results{}
	if err := b.run(ctx, p, r.Results, os.Stderr); err != nil {
		return err
	}
	if err := b.act(ctx, r.scenes, p, r.Results, os.Stderr); err != nil {
		return err
	}
	r.Repeated = b.repeated
	if o.calls {
		if err := b.measureCalls(ctx, p, r.Results, os.Stderr); err != nil {
			return err
		}
	}
	if len(r.setups) > 0 {
		r.Goals = r.goals()
	}
	return nil
}

// write writes the results' files, and the tables to the standard output.
func (r *report) write(out string) error {
	files := map[string]func(*os.File) error{
		out + ".md":   func(f *os.File) error { return r.writeMarkdown(f) },
		out + ".json": func(f *os.File) error { return r.writeJSON(f) },
		out + ".svg":  func(f *os.File) error { return r.writeChart(f) },
	}
	for path, write := range files {
		if err := writeFile(path, write); err != nil {
			return err
		}
	}
	return r.writeMarkdown(os.Stdout)
}

func writeFile(path string, write func(*os.File) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
