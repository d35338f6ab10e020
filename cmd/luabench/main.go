// Luabench measures what the scripts cost Redis: CPU time of the server per
// check, as multiples of EVALSHA 'return 1' in the same run, held against the
// project's goals. It starts a redis-server of its own: the one that
// REDIS_SERVER names, else the one on PATH ("make bench-lua" puts .tools/bin
// first).
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
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	rounds := flag.Int("rounds", 15, "how often each subject is measured")
	checks := flag.Int("checks", 20000, "checks in one measurement")
	charges := flag.Int("charges", 12000, "charges to measure sizes with; a table of Redis is full by 3/4 then")
	memory := flag.Bool("memory", false, "measure sizes alone")
	planning := flag.Bool("capacity", false, "measure what docs/capacity.md plans with, alone")
	addr := flag.String("addr", "",
		"with -capacity: measure the Redis at host:port, which nothing else should use meanwhile; REDISCLI_AUTH has its "+
			"password")
	publish := flag.Bool("publish", false, "record the results, and show them in the documents")
	show := flag.Bool("show", false, "measure nothing: show in the documents what was recorded last")
	clients := flag.Int("connections", 100, "with -capacity: connections that send one check at a time")
	flag.Parse()
	e := effort{rounds: *rounds, checks: *checks, charges: *charges}
	var found *results
	measure := func(addr string) (err error) {
		found, err = run(ctx, os.Stdout, addr, *memory, e)
		return err
	}
	if *planning {
		measure = func(server string) error { return plan(ctx, os.Stdout, server, *addr != "", *clients, e) }
	}
	var err error
	switch {
	case min(*rounds, *checks, *charges, *clients) < 1:
		err = fmt.Errorf("-rounds %d -checks %d -charges %d -connections %d: want more", *rounds, *checks, *charges, *clients)
	case *publish && (*planning || *memory):
		err = errors.New("-publish: want a run of everything, without -capacity and -memory")
	case *show:
		found, err = readResults(recorded)
	case *planning && *addr != "":
		err = measure(*addr)
	default:
		err = onServer(ctx, measure)
	}
	if err == nil && (*publish || *show) {
		err = found.publish(".")
	}
	if err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "luabench:", err)
		os.Exit(1)
	}
}

// run measures every subject and the sizes, or the sizes alone.
func run(ctx context.Context, out io.Writer, addr string, memory bool, e effort) (*results, error) {
	if memory {
		return benchOn(ctx, out, addr, nil, e)
	}
	peer, err := redisRateScript(ctx)
	if err != nil {
		return nil, err
	}
	return benchOn(ctx, out, addr, subjects(peer), e)
}

// benchOn measures on the server at addr, prints what it found, and returns it.
func benchOn(ctx context.Context, out io.Writer, addr string, all []*subject, e effort) (*results, error) {
	before := load()
	b, err := newBench(ctx, addr, all, e, usual)
	if err != nil {
		return nil, err
	}
	defer b.close()
	fmt.Fprintf(out, "%s; %d rounds of %d checks, %d connections, %d deep\n", b.version(ctx), e.rounds, e.checks,
		b.connections, b.depth)
	if len(all) > 0 {
		if err := b.measure(ctx); err != nil {
			return nil, err
		}
		b.report(out)
	}
	sizes, err := b.reportMemory(ctx, out)
	if err != nil {
		return nil, err
	}
	return b.results(ctx, before, sizes), nil
}
