// Bench measures Sluice and what users would pick instead: requests a second,
// latency, CPU time, Redis commands and memory of Envoy without a limiter, of
// Sluice in its modes, of Envoy's ratelimit filter with the service of
// github.com/envoyproxy/ratelimit, and of Envoy's local_ratelimit, all on this
// machine in one run. "make bench" runs it; docs/benchmarks.md explains it.
// "make count" has it count instructions, and "make footprint" measure what
// Sluice costs a proxy before its first request.
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
	out, command          string
	before                string
	count                 string
	check, publish        bool
	footprint             bool
	later                 time.Duration
	show                  string
}

func main() {
	var o options
	flag.IntVar(&o.rounds, "rounds", 5, "how often each setup is measured")
	flag.IntVar(&o.seconds, "seconds", 4, "length of one measurement")
	flag.IntVar(&o.rate, "rate", 2000, "requests a second of the open loop")
	flag.StringVar(&o.out, "out", "results/latest", "the results' files, without .md, .json and .svg")
	flag.StringVar(&o.before, "before", "", "another sluice.wasm, to compare with this one, and nothing else")
	flag.StringVar(&o.count, "count", "", "count the instructions of some setups (sluice,none or all), and nothing else")
	flag.BoolVar(&o.check, "check", false, "with -count: hold the usual request to what is recorded")
	flag.BoolVar(&o.publish, "publish", false, "keep the result as the one that the documents show, on a quiet machine")
	flag.StringVar(&o.show, "show", "", "measure nothing: have the documents show this results file, in JSON")
	flag.BoolVar(&o.footprint, "footprint", false, "measure what Sluice costs a proxy at its start, and nothing else")
	flag.DurationVar(&o.later, "later", 0, "with -footprint: look at the memory once more, so long after the start")
	flag.StringVar(&o.command, "command", "go run . "+strings.Join(os.Args[1:], " "), "how the results say they were made")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root, err := filepath.Abs("..")
	if err == nil {
		err = o.act(ctx, root)
	}
	if err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// act does what the options say, in the repository at root.
func (o options) act(ctx context.Context, root string) error {
	switch {
	case o.rounds < 1 || o.seconds < 1 || o.rate < 1:
		return fmt.Errorf("%d rounds of %d s, %d requests/s: want at least 1 each", o.rounds, o.seconds, o.rate)
	case o.show != "":
		r, err := readRun(o.show)
		if err != nil {
			return err
		}
		return r.publish(root)
	case o.footprint:
		return runFootprint(ctx, root, o)
	case o.count != "":
		return runCount(ctx, root, o)
	}
	return run(ctx, root, o)
}

// closedLoads are the closed loops.
var closedLoads = []load{{id: mainLoad, connections: 16}, {id: crowdLoad, connections: 64}}

func run(ctx context.Context, root string, o options) error {
	if o.publish {
		if err := o.publishable(); err != nil {
			return err
		}
	}
	r := report{Command: o.command, Rounds: o.rounds, Seconds: o.seconds, Rate: o.rate}
	r.setups = setups()
	if o.before != "" {
		file, err := filepath.Abs(o.before)
		if err != nil {
			return err
		}
		r.setups = beside(file)
	}
	err := onBench(ctx, root, func(b *bench, m machine) error {
		r.Machine = m
		return r.fill(ctx, b, o)
	})
	if err != nil {
		return err
	}
	if err := r.write(o.out); err != nil || !o.publish {
		return err
	}
	return r.publish(root)
}

// watched is for how long a run that is to be published looks at the machine before it begins.
const watched = 5 * time.Second

// fill makes the measurements.
func (r *report) fill(ctx context.Context, b *bench, o options) error {
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
	if err := b.run(ctx, p, r.Results); err != nil {
		return err
	}
	r.Repeated = b.repeated
	r.Goals = r.goals()
	return nil
}

// write writes the results' files, and the tables to the standard output.
func (r *report) write(out string) error {
	text, err := r.json()
	if err != nil {
		return err
	}
	for ending, text := range map[string]string{".md": r.markdown(), ".json": text, ".svg": r.chart()} {
		if err := os.WriteFile(out+ending, []byte(text), 0o600); err != nil {
			return err
		}
	}
	fmt.Print(r.markdown())
	return nil
}
