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
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

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
	case o.rounds < 1 || o.seconds < 1:
		return fmt.Errorf("%d rounds of %d s: want at least 1 each", o.rounds, o.seconds)
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

// run makes the measurements, and writes them into files, and the table to the standard output.
func run(ctx context.Context, root string, o options) error {
	if err := o.publishable(); err != nil && o.publish {
		return err
	}
	r := report{
		Command: fmt.Sprintf("make bench ROUNDS=%d SECONDS=%d", o.rounds, o.seconds),
		Rounds:  o.rounds, Seconds: o.seconds, Results: results{}, setups: setups(),
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
		r.Repeated = b.repeated
		return nil
	})
	if err != nil {
		return err
	}
	files, err := r.files(out)
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
func (r *report) files(name string) (map[string]string, error) {
	text, err := json.MarshalIndent(r, "", " ")
	return map[string]string{
		name + ".md": r.tables(), name + ".json": string(text) + "\n", name + ".svg": r.chart(),
	}, err
}

// bench has the programs that run from beginning to end, and the setup that is measured.
type bench struct {
	root, dir string // of the repository; of logs and configurations
	redis     *redisServer
	upstream  *envoy
	service   string   // the program of envoyproxy/ratelimit; empty until a setup needs it
	measured  *running // nil: none is up
	repeated  int      // measurements that others disturbed
	clock     string   // the library that makes time pass slowly for what is counted
	under     under    // what the setup that is measured is run by
}

// running is a setup with its processes.
type running struct {
	*setup

	envoy *envoy
	// own are all of them: envoy's, and the service's or the relay's, if it has one.
	own            []*subprocess
	service, relay *subprocess
}

// onBench starts what all setups share, and ends it and what was started meanwhile.
func onBench(ctx context.Context, root string, act func(*bench, machine) error) error {
	dir, err := os.MkdirTemp("", "sluice-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := &bench{root: root, dir: dir}
	defer b.stop()
	ports, err := freePorts(3)
	if err != nil {
		return err
	}
	if b.redis, err = unwatched.startRedis(ctx, dir, ports[0]); err != nil {
		return err
	}
	at := place{listener: ports[1], admin: ports[2]}
	if b.upstream, err = unwatched.startEnvoy(ctx, dir, "upstream", answering(at), at); err != nil {
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
func freePorts(n int) (ports []int, err error) {
	for range n {
		port, _, err := process.FreePort()
		if err != nil {
			return nil, err
		}
		ports = append(ports, port)
	}
	return ports, nil
}

// bringUp starts a setup's own processes, until bringDown.
func (b *bench) bringUp(ctx context.Context, s *setup) error {
	ports, err := freePorts(5)
	if err != nil {
		return err
	}
	at := place{
		timeout: b.under.timeout(), root: b.root,
		upstream: b.upstream.port, redis: b.redis.port,
		listener: ports[0], admin: ports[1], service: ports[2], health: ports[3], debug: ports[4],
	}
	r := &running{setup: s}
	b.measured = r
	if s.peer != nil {
		if b.service == "" {
			if b.service, err = buildPeer(ctx, b.root, b.dir); err != nil {
				return err
			}
		}
		if r.service, err = b.under.startPeer(ctx, b.service, b.dir, s.id+"-service", s.peer, at); err != nil {
			return err
		}
		r.own = append(r.own, r.service)
	}
	if s.relay {
		relay, err := b.startRelay(ctx, at)
		if err != nil {
			return err
		}
		r.relay = relay.subprocess
		r.own = append(r.own, r.relay)
	}
	config, err := s.config(at)
	if err != nil {
		return err
	}
	if r.envoy, err = b.under.startEnvoy(ctx, b.dir, s.id, config, at); err != nil {
		return err
	}
	r.own = append(r.own, r.envoy.subprocess)
	return nil
}

// bringDown ends what bringUp has started.
func (b *bench) bringDown() {
	if b.measured == nil {
		return
	}
	for _, p := range b.measured.own {
		p.stop()
	}
	b.measured = nil
}

// processes are all that run.
func (b *bench) processes() (all []*subprocess) {
	if b.redis != nil {
		all = append(all, b.redis.subprocess)
	}
	if b.upstream != nil {
		all = append(all, b.upstream.subprocess)
	}
	if b.measured != nil {
		all = append(all, b.measured.own...)
	}
	return all
}

// stop ends everything that was started.
func (b *bench) stop() {
	for _, p := range b.processes() {
		p.stop()
	}
}

// warmUpSeconds is how long a setup is warmed up, at most: V8 compiles what is hot a second time.
const warmUpSeconds = 2

// run measures every setup in each round. The rounds begin with
// another setup each, so that what slows the machine for a while slows different
// ones, and start its processes anew, as how fast one is depends on where its
// memory happens to be.
func (b *bench) run(ctx context.Context, setups []*setup, o options, r results) error {
	for round := range o.rounds {
		for i := range setups {
			s := setups[(i+round)%len(setups)]
			fmt.Fprintf(os.Stderr, "\r%-60s", fmt.Sprintf("round %d of %d: %s", round+1, o.rounds, s.id))
			if err := b.runOnce(ctx, s, o, r); err != nil {
				return fmt.Errorf("%s: %w", s.id, err)
			}
		}
	}
	fmt.Fprintf(os.Stderr, "\r%60s\r", "")
	return nil
}

// runOnce measures one setup.
func (b *bench) runOnce(ctx context.Context, s *setup, o options, r results) error {
	defer b.bringDown()
	if err := b.bringUp(ctx, s); err != nil {
		return err
	}
	if _, err := b.measure(ctx, min(o.seconds, warmUpSeconds)); err != nil {
		return err
	}
	sample, err := b.measureQuietly(ctx, o)
	r[s.id] = append(r[s.id], sample)
	return err
}
