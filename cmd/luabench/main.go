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
	addr := flag.String("addr", "", "with -capacity: measure the Redis at host:port, which nothing else should use meanwhile; REDISCLI_AUTH has its password")
	clients := flag.Int("connections", 100, "with -capacity: connections that send one check at a time")
	flag.Parse()
	e := effort{rounds: *rounds, checks: *checks, charges: *charges}
	if *memory {
		e.rounds = 0
	}
	measure := func() error { return run(ctx, os.Stdout, e) }
	if *planning {
		measure = func() error { return plan(ctx, os.Stdout, *addr, *clients, e) }
	}
	if err := measure(); err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "luabench:", err)
		os.Exit(1)
	}
}

// effort is how much is done to measure.
type effort struct{ rounds, checks, charges int }

func run(ctx context.Context, out io.Writer, e effort) error {
	if e.rounds < 0 || e.checks < 1 || e.charges < 1 {
		return fmt.Errorf("-rounds %d -checks %d -charges %d: want more", e.rounds, e.checks, e.charges)
	}
	peer, err := redisRateScript(ctx)
	if err != nil {
		return err
	}
	s, err := startServer(ctx)
	if err != nil {
		return err
	}
	defer s.stop()
	return benchOn(ctx, out, s.addr, subjects(peer), e)
}

// benchOn measures on the server at addr and prints what it found.
func benchOn(ctx context.Context, out io.Writer, addr string, all []*subject, e effort) error {
	b, err := newBench(ctx, addr, all, e.checks, usual)
	if err != nil {
		return err
	}
	defer b.close()
	version, err := b.version()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s; %d rounds of %d checks, %d connections, %d deep\n", version, e.rounds, e.checks, b.connections, b.depth)
	if e.rounds > 0 {
		if err := b.measure(e.rounds); err != nil {
			return err
		}
		b.report(out)
	}
	return b.reportMemory(out, e.charges)
}
