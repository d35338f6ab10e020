package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/internal/measure"
)

// shape is the load: each connection writes a batch of checks, each of an identity
// of its own, and the next batch when all are answered.
type shape struct {
	connections int
	depth       int // checks in a batch
}

// usual measures the scripts: what the kernel takes is shared by a batch.
var usual = shape{connections: 8, depth: 16}

// effort is how much is done to measure.
type effort struct{ rounds, checks, charges int }

// bench measures subjects on one server.
type bench struct {
	shape
	effort

	client  *redis.Client // for what is not measured
	conns   []*redis.Conn
	base    *runner
	runners []*runner
}

// runner is a subject with its checks and what they took.
type runner struct {
	subject
	batches  [][]call  // one for each connection
	micros   []float64 // CPU time of the server per check, one for each round
	multiple []float64 // the same in base's
}

func identity(i int) string { return fmt.Sprintf("user-%04d", i) }

// newBench connects to a server, and brings the keys of all subjects into the state that is measured. When
// the context ends, so do the connections.
func newBench(ctx context.Context, addr string, all []subject, e effort, load shape) (*bench, error) {
	b := &bench{effort: e, shape: load, client: redis.NewClient(&redis.Options{
		Addr: addr, Password: os.Getenv("REDISCLI_AUTH"), Protocol: 2, DisableIdentity: true,
		PoolSize: load.connections + 1, MaxRetries: -1, ReadTimeout: -1, WriteTimeout: -1,
	})}
	context.AfterFunc(ctx, func() { b.client.Close() })
	for range load.connections {
		b.conns = append(b.conns, b.client.Conn())
	}
	for _, s := range append([]subject{base}, all...) {
		r := &runner{subject: s, batches: make([][]call, b.connections)}
		for i := range b.connections * b.depth {
			if err := b.prime(ctx, s, identity(i)); err != nil {
				b.client.Close()
				return nil, fmt.Errorf("%s: %w", s.Name, err)
			}
			r.batches[i/b.depth] = append(r.batches[i/b.depth], s.check(identity(i))...)
		}
		b.runners = append(b.runners, r)
	}
	b.base, b.runners = b.runners[0], b.runners[1:]
	return b, nil
}

// prime makes the first check of an identity, and holds the answer against what is to be measured.
func (b *bench) prime(ctx context.Context, s subject, id string) error {
	var first []call
	if s.prime != nil {
		first = s.prime(id)
	}
	return b.call(ctx, append(first, s.check(id)...))
}

// call makes calls one by one. A script is loaded where the server does not have it.
func (b *bench) call(ctx context.Context, calls []call) error {
	for _, c := range calls {
		reply := b.client.Do(ctx, c.command...)
		if redis.HasErrorPrefix(reply.Err(), "NOSCRIPT") {
			if err := b.client.ScriptLoad(ctx, c.script).Err(); err != nil {
				return err
			}
			reply = b.client.Do(ctx, c.command...)
		}
		err := reply.Err()
		if err == nil && c.accept != nil {
			err = c.accept(reply)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// measure runs the rounds, after one that only warms up. The base is measured before each subject, so that
// what slows the machine for a while slows both.
func (b *bench) measure(ctx context.Context) error {
	for round := range b.rounds + 1 {
		for _, r := range b.runners {
			unit, err := b.run(ctx, b.base)
			micros, failed := b.run(ctx, r)
			if err := errors.Join(err, failed); err != nil {
				return err
			}
			if round > 0 {
				b.base.micros, r.micros = append(b.base.micros, unit), append(r.micros, micros)
				r.multiple = append(r.multiple, micros/unit)
			}
		}
		fmt.Fprintf(os.Stderr, "\rround %d of %d ", round, b.rounds)
	}
	fmt.Fprintln(os.Stderr)
	for _, r := range b.runners { // that is still the same
		if err := b.call(ctx, r.check(identity(0))); err != nil {
			return fmt.Errorf("%s: %w", r.Name, err)
		}
	}
	return nil
}

// run sends a subject's checks and returns the CPU time that each cost.
func (b *bench) run(ctx context.Context, r *runner) (micros float64, err error) {
	batches := max(b.checks/(b.connections*b.depth), 1)
	before, err := b.sum(ctx, "CPU", "used_cpu_sys", "used_cpu_user")
	if err != nil {
		return 0, err
	}
	var group sync.WaitGroup
	failures := make([]error, b.connections)
	for i, c := range b.conns {
		group.Go(func() {
			for n := 0; n < batches && failures[i] == nil; n++ {
				failures[i] = exchange(ctx, c, r.batches[i])
			}
		})
	}
	group.Wait()
	if err := errors.Join(failures...); err != nil {
		return 0, fmt.Errorf("%s: %w", r.Name, err)
	}
	after, err := b.sum(ctx, "CPU", "used_cpu_sys", "used_cpu_user")
	return (after - before) * 1e6 / float64(batches*b.connections*b.depth), err
}

// exchange sends a batch in one write, and returns when all of it is answered. An error reply is
// an error.
func exchange(ctx context.Context, c redis.Cmdable, batch []call) error {
	_, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range batch {
			p.Do(ctx, batch[i].command...)
		}
		return nil
	})
	return err
}

// plan measures Redis' CPU time of a check with the kernel's part in it: of checks that
// come one by one, as from workers of Envoy that are not busy, and in batches, as from
// those that are. It leaves no key behind.
func plan(ctx context.Context, out io.Writer, addr string, clients int, e effort) error {
	var columns [2]*bench
	for i, load := range []shape{{clients, 1}, usual} {
		b, err := newBench(ctx, addr, subjects("planned"), e, load)
		if err != nil {
			return err
		}
		defer b.client.Close()
		if err := b.measure(ctx); err != nil {
			return err
		}
		columns[i] = b
		for _, r := range b.runners {
			for _, c := range slices.Concat(r.batches...) {
				if err := b.client.Del(ctx, c.keys...).Err(); err != nil {
					return err
				}
			}
		}
	}
	server, err := columns[0].version(ctx)
	fmt.Fprintf(out, "%s; microseconds of its CPU for a check, in user mode and in the kernel; median of %d rounds\n",
		server, e.rounds)
	fmt.Fprintf(out, "one by one: %d connections, a check in flight on each; batched: %d connections, %d checks in a "+
		"write\n\n%-40s %10s %10s\n", clients, usual.connections, usual.depth, "", "one by one", "batched")
	for i, r := range columns[0].runners {
		fmt.Fprintf(out, "%-40s %10.1f %10.1f\n", r.Name, measure.Median(r.micros),
			measure.Median(columns[1].runners[i].micros))
	}
	return err
}

const (
	// fewest is the least number of identities of which the mean is taken.
	fewest = 10
	// settling is how long Redis may take to finish what it does on the side:
	// resizing tables, shrinking the buffers of connections.
	settling = 300 * time.Millisecond
)

// size is what Redis' used_memory grows by for each identity, over many. That is
// more than MEMORY USAGE says of its key, which leaves out the table of expiries
// (https://redis.io/docs/latest/commands/memory-usage/). It empties Redis.
func (b *bench) size(ctx context.Context, s subject) (bytes float64, err error) {
	if err := b.client.Do(ctx, "FLUSHALL", "SYNC").Err(); err != nil {
		return 0, err
	}
	for _, c := range s.check("") {
		if err := b.client.ScriptLoad(ctx, c.script).Err(); err != nil {
			return 0, err
		}
	}
	time.Sleep(settling)
	before, err := b.sum(ctx, "Memory", "used_memory")
	identities := b.charges/s.Charges + fewest
	for i := 0; i < identities && err == nil; i++ {
		var more []call
		for range s.Charges - 1 {
			more = append(more, s.check(identity(i))...)
		}
		if err = b.prime(ctx, s, identity(i)); err == nil {
			err = exchange(ctx, b.client, more)
		}
	}
	if err != nil {
		return 0, err
	}
	time.Sleep(settling)
	after, err := b.sum(ctx, "Memory", "used_memory")
	return math.Round((after - before) / float64(identities)), err
}

// sum adds fields of INFO. https://redis.io/docs/latest/commands/info/
func (b *bench) sum(ctx context.Context, section string, names ...string) (all float64, err error) {
	info := b.client.InfoMap(ctx, section)
	if err := info.Err(); err != nil {
		return 0, err
	}
	for _, name := range names {
		value, err := strconv.ParseFloat(info.Item(section, name), 64)
		if err != nil {
			return 0, err
		}
		all += value
	}
	return all, nil
}

// version names the server.
func (b *bench) version(ctx context.Context) (string, error) {
	server := b.client.InfoMap(ctx, "server")
	if v := server.Item("Server", "valkey_version"); v != "" {
		return "Valkey " + v, nil
	}
	return "Redis " + server.Item("Server", "redis_version"), server.Err()
}
