// Bench measures Sluice and what users would pick instead: requests a second,
// CPU time, Redis commands and memory of Envoy without a limiter, of
// Sluice in its modes, of Envoy's ratelimit filter with the service of
// github.com/envoyproxy/ratelimit, and of Envoy's local_ratelimit, all on this
// machine in one run. "make bench" runs it; docs/benchmarks.md explains it.
// "make count" has it count instructions, and "make footprint" measure what
// Sluice costs a proxy before its first request.
//
// Nothing is held to a goal: the exit status is 1 only when something could not be
// measured.
package main

import (
	"context"
	_ "embed"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/measure"
	"github.com/sluiceproxy/sluice/internal/process"
)

type options struct {
	rounds, seconds int
	before          string
	count           string
	check, publish  bool
	footprint       bool
	later           time.Duration
	show            string
}

func main() {
	var o options
	flag.IntVar(&o.rounds, "rounds", 5, "how often each setup is measured")
	flag.IntVar(&o.seconds, "seconds", 4, "length of one measurement")
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
	switch {
	case err != nil:
	case o.rounds < 1 || o.seconds < 1:
		err = fmt.Errorf("%d rounds of %d s: want at least 1 each", o.rounds, o.seconds)
	case o.show != "":
		var r *report
		if r, err = readRun(o.show); err == nil {
			err = r.publish(root)
		}
	case o.footprint:
		err = runFootprint(ctx, root, o)
	case o.count != "":
		err = runCount(ctx, root, o)
	default:
		err = run(ctx, root, o)
	}
	if err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// watched is for how long a run that is to be published looks at the machine before it begins.
const watched = 5 * time.Second

// run makes the measurements, and writes them into files, and the table to the standard output.
func run(ctx context.Context, root string, o options) error {
	if err := o.publishable(); err != nil && o.publish {
		return err
	}
	r := report{
		Command: fmt.Sprintf("make bench ROUNDS=%d SECONDS=%d", o.rounds, o.seconds),
		Rounds:  o.rounds, Seconds: o.seconds, Results: results{}, Setups: setups(),
	}
	out := "bench/results/latest"
	if o.before != "" {
		file, err := filepath.Abs(o.before)
		if err != nil {
			return err
		}
		out, r.Setups = "bench/results/before", beside(file)
	}
	return onBench(ctx, root, func(b *bench, m machine) error {
		r.Machine = m
		if o.publish {
			if err := b.awaitQuiet(ctx, watched, 0); err != nil {
				return fmt.Errorf("nothing is published: %w", err)
			}
		}
		if err := b.measureAll(ctx, &r, o); err != nil {
			return err
		}
		files, err := r.files(out, out+".svg")
		if err != nil {
			return err
		}
		if err := (measure.Pages{}).Publish(root, files); err != nil {
			return err
		}
		fmt.Print(files[out+".md"])
		if o.publish {
			return r.publish(root)
		}
		return nil
	})
}

// bench has the programs that run, and the setup that is measured.
type bench struct {
	root, dir string        // of the repository; of logs and configurations
	started   []*subprocess // what runs, in the order in which it has begun
	redis     *redisServer
	upstream  int // its port
	measured  running
	service   string // the program of envoyproxy/ratelimit; empty until a setup needs it
	clock     string // the library that makes time pass slowly for what is counted
	// The command by which programs are run, with its options, and variables ("NAME=value") for it; empty:
	// they run by themselves.
	command, env []string
}

// running is a setup with its processes.
type running struct {
	*setup

	envoy  *envoy
	beside *subprocess // the service or the relay, if it has one
}

//go:embed upstream.yaml
var upstreamFile []byte

// onBench starts what all setups share, and ends it and what was started meanwhile.
func onBench(ctx context.Context, root string, act func(*bench, machine) error) error {
	dir, err := os.MkdirTemp("", "sluice-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := &bench{root: root, dir: dir}
	defer b.stop(0)
	ports, err := freePorts(3)
	if err != nil {
		return err
	}
	if b.redis, err = b.startRedis(ctx, ports[0]); err != nil {
		return err
	}
	c, err := envoyconf.Parse(upstreamFile)
	if err != nil {
		return err
	}
	b.upstream = ports[1]
	c.SetPorts(ports[1], ports[2])
	if _, err := b.startEnvoy(ctx, "upstream", c, place{listener: ports[1], admin: ports[2]}); err != nil {
		return err
	}
	m, err := b.describe(ctx)
	if err != nil {
		return err
	}
	return act(b, m)
}

// freePorts are TCP ports of loopback on which nothing listens. No other process gets them until the
// program ends.
func freePorts(n int) ([]int, error) {
	ports := make([]int, n)
	for i := range ports {
		var err error
		if ports[i], _, err = process.FreePort(); err != nil {
			return nil, err
		}
	}
	return ports, nil
}

// stop ends what was started but for the first so many.
func (b *bench) stop(kept int) {
	for _, p := range b.started[kept:] {
		p.stop()
	}
	b.started = b.started[:kept]
}

// bringUp starts a setup's own processes.
func (b *bench) bringUp(ctx context.Context, s *setup) error {
	ports, err := freePorts(5)
	if err != nil {
		return err
	}
	at := place{
		root: b.root, upstream: b.upstream, redis: b.redis.port, timeout: 50 * time.Millisecond, // Sluice's default
		listener: ports[0], admin: ports[1], service: ports[2], health: ports[3], debug: ports[4],
	}
	if len(b.command) > 0 {
		at.timeout = 20 * time.Second // as long as it takes
	}
	b.measured = running{setup: s}
	switch {
	case s.Service != nil:
		if b.service == "" {
			if b.service, err = buildService(ctx, b.root); err != nil {
				return err
			}
		}
		if b.measured.beside, err = b.startService(ctx, s.Service, s.Service.limits(), at); err != nil {
			return err
		}
	case s.Redis == "relay":
		relay, err := b.startRelay(ctx, at)
		if err != nil {
			return err
		}
		b.measured.beside = relay.subprocess
	}
	config, err := s.config(at)
	if err != nil {
		return err
	}
	b.measured.envoy, err = b.startEnvoy(ctx, s.ID, config, at)
	return err
}

// warmUpSeconds is how long a setup is warmed up, at most: V8 compiles what is hot a second time.
const warmUpSeconds = 2

// measureAll measures every setup in each round. The rounds begin with
// another setup each, so that what slows the machine for a while slows different
// ones, and start its processes anew, as how fast one is depends on where its
// memory happens to be.
func (b *bench) measureAll(ctx context.Context, r *report, o options) error {
	shared := len(b.started)
	for round := range o.rounds {
		for i := range r.Setups {
			s := r.Setups[(i+round)%len(r.Setups)]
			fmt.Fprintf(os.Stderr, "\r%-60s", fmt.Sprintf("round %d of %d: %s", round+1, o.rounds, s.ID))
			err := b.bringUp(ctx, s)
			if err == nil {
				_, err = b.measure(ctx, min(o.seconds, warmUpSeconds))
			}
			if err == nil {
				err = b.measureQuietly(ctx, r, o)
			}
			b.stop(shared)
			if err != nil {
				return fmt.Errorf("%s: %w", s.ID, err)
			}
		}
	}
	fmt.Fprintf(os.Stderr, "\r%60s\r", "")
	return nil
}
