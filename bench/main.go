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
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

type options struct {
	rounds, seconds, rate int
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
	flag.StringVar(&o.before, "before", "", "another sluice.wasm, to compare with this one, and nothing else")
	flag.StringVar(&o.count, "count", "", "count the instructions of some setups (sluice,none or all), and nothing else")
	flag.BoolVar(&o.check, "check", false, "with -count: hold the usual request to what is recorded")
	flag.BoolVar(&o.publish, "publish", false, "keep the result as the one that the documents show, on a quiet machine")
	flag.StringVar(&o.show, "show", "", "measure nothing: have the documents show this results file, in JSON")
	flag.BoolVar(&o.footprint, "footprint", false, "measure what Sluice costs a proxy at its start, and nothing else")
	flag.DurationVar(&o.later, "later", 0, "with -footprint: look so long after the start")
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

// run makes the measurements, and writes them into files, and the table to the standard output.
func run(ctx context.Context, root string, o options) error {
	if err := o.publishable(); err != nil && o.publish {
		return err
	}
	r := report{
		Command: fmt.Sprintf("make bench ROUNDS=%d SECONDS=%d RATE=%d", o.rounds, o.seconds, o.rate),
		Rounds:  o.rounds, Seconds: o.seconds, Rate: o.rate, Results: results{}, setups: setups(),
	}
	out := "results/latest"
	if o.before != "" {
		file, err := filepath.Abs(o.before)
		if err != nil {
			return err
		}
		out, r.setups = "results/before", beside(file)
	}
	err := onBench(ctx, root, func(b *bench, m machine) error {
		r.Machine = m
		if o.publish {
			if err := b.awaitQuiet(ctx, watched, 0); err != nil {
				return fmt.Errorf("nothing is published: %w", err)
			}
		}
		if err := b.run(ctx, r.setups, o, r.Results); err != nil {
			return err
		}
		r.Repeated, r.Goals = b.repeated, r.goals()
		return nil
	})
	if err != nil {
		return err
	}
	files, err := r.files(out, r.markdown())
	if err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			return err
		}
	}
	fmt.Print(files[out+".md"])
	if o.publish {
		return r.publish(root)
	}
	return nil
}

// watched is for how long a run that is to be published looks at the machine before it begins.
const watched = 5 * time.Second

// files are those of a run, by names that begin alike.
func (r *report) files(name, markdown string) (map[string]string, error) {
	text, err := json.MarshalIndent(r, "", " ")
	return map[string]string{
		name + ".md": markdown, name + ".json": string(text) + "\n", name + ".svg": r.chart(),
	}, err
}
