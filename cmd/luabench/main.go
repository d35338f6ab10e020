// Luabench measures what the scripts cost Redis: CPU time of the server per
// check, as multiples of EVALSHA 'return 1' in the same run, and the memory of
// one identity. It starts a redis-server of its own: the one that REDIS_SERVER
// names, else the one on PATH ("make bench-lua" puts .tools/bin first).
//
// What a multiple comes to depends on the machine's load far less than a time
// does, yet not nothing: nothing here fails for being slow. The exit status is
// 1 only when something could not be measured.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/sluiceproxy/sluice/internal/measure"
	"github.com/sluiceproxy/sluice/internal/process"
)

// options are those of the command line.
type options struct {
	rounds, clients   int
	addr              string
	capacity, publish bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var o options
	flag.IntVar(&o.rounds, "rounds", 15, "how often each subject is measured")
	flag.BoolVar(&o.capacity, "capacity", false, "measure what docs/sizing.md plans with, alone")
	flag.StringVar(&o.addr, "addr", "",
		"with -capacity: measure the Redis at host:port, which nothing else should use meanwhile; REDISCLI_AUTH has its "+
			"password")
	flag.BoolVar(&o.publish, "publish", false, "record the results, and show them in the documents")
	flag.IntVar(&o.clients, "connections", 100, "with -capacity: connections that send one check at a time")
	flag.Parse()
	if err := o.run(ctx); err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "luabench:", err)
		os.Exit(1)
	}
}

// run measures on a redis-server on loopback that keeps nothing on disk, or on the one that is named.
func (o options) run(ctx context.Context) error {
	// A table of Redis is full by 3/4 after so many charges.
	e := effort{rounds: o.rounds, checks: 20_000, charges: 12_000}
	switch {
	case min(o.rounds, o.clients) < 1:
		return fmt.Errorf("-rounds %d -connections %d: want more", o.rounds, o.clients)
	case o.publish && o.capacity:
		return errors.New("-publish: want a run of everything, without -capacity")
	case o.capacity && o.addr != "":
		return plan(ctx, os.Stdout, o.addr, o.clients, e)
	}
	dir, err := os.MkdirTemp("", "sluice-luabench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	port, release, err := process.FreePort()
	if err != nil {
		return err
	}
	defer release()
	path, err := process.Find(".", "redis-server")
	if err != nil {
		return err
	}
	p, err := process.Start(exec.Command(path, process.RedisArgs(dir, port)...))
	if err != nil {
		return err
	}
	defer p.Kill()
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	ready := func(ctx context.Context) error { return process.PingRedis(ctx, addr) }
	if err := process.Await(ctx, startLimit, ready, p); err != nil {
		return fmt.Errorf("redis-server: %w", err)
	}
	if o.capacity {
		return plan(ctx, os.Stdout, addr, o.clients, e)
	}
	found, err := benchOn(ctx, os.Stdout, addr, append(subjects("subjects"), peers()...), e)
	if err != nil || !o.publish {
		return err
	}
	return found.publish(".")
}

// startLimit bounds the wait for the server to answer.
const startLimit = 20 * time.Second

// benchOn measures on the server at addr, which it empties, prints what it found, and returns it.
func benchOn(ctx context.Context, out io.Writer, addr string, all []subject, e effort) (*results, error) {
	r := &results{
		Date: time.Now().UTC().Format(time.DateOnly), Load: measure.Load() + " before, ", Rounds: e.rounds,
		Multiples: map[string]float64{}, Bytes: map[string]float64{},
	}
	b, err := newBench(ctx, addr, all, e, usual)
	if err != nil {
		return nil, err
	}
	defer b.client.Close()
	if r.Server, err = b.version(ctx); err != nil {
		return nil, err
	}
	fmt.Fprintf(out, "%s; %d rounds of %d checks, %d connections, %d deep\n", r.Server, e.rounds, e.checks,
		b.connections, b.depth)
	if err := b.measure(ctx); err != nil {
		return nil, err
	}
	fmt.Fprintf(out, "CPU time of the server per check, in us, and in multiples of the first row: median (quartiles)\n\n")
	r.Micros = hundredths(measure.Median(b.base.micros))
	fmt.Fprintf(out, "%-40s %9.2f\n", b.base.Name, r.Micros)
	for _, one := range b.runners {
		low, middle, high := measure.Quartiles(one.multiple)
		fmt.Fprintf(out, "%-40s %9.2f %10.2f (%.2f-%.2f)\n", one.Name, measure.Median(one.micros), middle, low, high)
		r.Multiples[one.Name] = hundredths(middle)
	}
	fmt.Fprintln(out)
	of := func(name string) float64 { return r.Multiples[name] }
	r.Ratios = map[string]float64{
		"gcra, 3 limits: one call / 3 calls":     of("gcra, 3 limits in one call") / of("gcra, 3 limits in 3 calls"),
		"gcra, overrides - gcra":                 of("gcra, overrides") - of("gcra"),
		"gcra, an override that is known - gcra": of("gcra, an override that is known") - of("gcra"),
	}
	for _, name := range slices.Sorted(maps.Keys(r.Ratios)) {
		r.Ratios[name] = hundredths(r.Ratios[name])
		fmt.Fprintf(out, "%-40s %20.2f\n", name, r.Ratios[name])
	}
	fmt.Fprintf(out, "\nused_memory of one identity, in bytes\n")
	for _, s := range subjects("sizes") {
		if r.Bytes[s.Name], err = b.size(ctx, s); err != nil {
			return nil, fmt.Errorf("%s: %w", s.Name, err)
		}
		fmt.Fprintf(out, "%-40s %9.0f\n", s.Name, r.Bytes[s.Name])
	}
	r.Load += measure.Load() + " after"
	return r, nil
}

func hundredths(value float64) float64 { return math.Round(value*100) / 100 }
