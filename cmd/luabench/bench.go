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
				return nil, fmt.Errorf("%s: %w", s.name, err)
			}
			r.batches[i/b.depth] = append(r.batches[i/b.depth], s.check(identity(i))...)
		}
		b.runners = append(b.runners, r)
	}
	b.base, b.runners = b.runners[0], b.runners[1:]
	return b, nil
}

func identity(i int) string { return fmt.Sprintf("user-%04d", i) }

// prime makes the first check of an identity, and holds the answer against what is to be measured.
func (b *bench) prime(ctx context.Context, s subject, id string) error {
	if s.prime != nil {
		if err := b.call(ctx, s.prime(id)); err != nil {
			return err
		}
	}
	return b.call(ctx, s.check(id))
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
		if round == 1 {
			b.base.micros = nil
		}
		for _, r := range b.runners {
			if round == 1 {
				r.micros, r.multiple = nil, nil
			}
			if err := errors.Join(b.run(ctx, b.base), b.run(ctx, r)); err != nil {
				return err
			}
			r.multiple = append(r.multiple, r.micros[len(r.micros)-1]/b.base.micros[len(b.base.micros)-1])
		}
		fmt.Fprintf(os.Stderr, "\rround %d of %d ", round, b.rounds)
	}
	fmt.Fprintln(os.Stderr)
	for _, r := range b.runners { // that is still the same
		if err := b.call(ctx, r.check(identity(0))); err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
	}
	return nil
}

// run sends a subject's checks and takes the CPU time that they cost.
func (b *bench) run(ctx context.Context, r *runner) error {
	batches := max(b.checks/(b.connections*b.depth), 1)
	before, err := b.cpuMicros(ctx)
	if err != nil {
		return err
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
		return fmt.Errorf("%s: %w", r.name, err)
	}
	after, err := b.cpuMicros(ctx)
	r.micros = append(r.micros, (after-before)/float64(batches*b.connections*b.depth))
	return err
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

func hundredths(value float64) float64 { return math.Round(value*100) / 100 }

// plan measures Redis' CPU time of a check with the kernel's part in it: of checks that
// come one by one, as from workers of Envoy that are not busy, and in batches, as from
// those that are. It leaves no key behind.
func plan(ctx context.Context, out io.Writer, addr string, clients int, e effort) error {
	loads := []shape{{clients, 1}, usual}
	columns, server := make([][]*runner, len(loads)), ""
	for i, load := range loads {
		b, err := newBench(ctx, addr, planned(), e, load)
		if err != nil {
			return err
		}
		defer b.client.Close()
		if err := b.measure(ctx); err != nil {
			return err
		}
		if server, err = b.version(ctx); err != nil {
			return err
		}
		columns[i] = b.runners
		for _, r := range b.runners {
			for _, c := range slices.Concat(r.batches...) {
				if err := b.client.Del(ctx, c.keys...).Err(); err != nil {
					return err
				}
			}
		}
	}
	fmt.Fprintf(out, "%s; microseconds of its CPU for a check, in user mode and in the kernel; median of %d rounds\n",
		server, e.rounds)
	fmt.Fprintf(out, "one by one: %d connections, a check in flight on each; batched: %d connections, %d checks in a "+
		"write\n\n%-40s %10s %10s\n", clients, usual.connections, usual.depth, "", "one by one", "batched")
	for i, r := range columns[0] {
		fmt.Fprintf(out, "%-40s %10.1f %10.1f\n", r.name, measure.Median(r.micros), measure.Median(columns[1][i].micros))
	}
	return nil
}

// fewest is the least number of identities of which the mean is taken.
const fewest = 10

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
	before, err := b.usedMemory(ctx)
	identities := b.charges/s.charges + fewest
	for i := 0; i < identities && err == nil; i++ {
		var more []call
		for range s.charges - 1 {
			more = append(more, s.check(identity(i))...)
		}
		if err = b.prime(ctx, s, identity(i)); err == nil {
			err = exchange(ctx, b.client, more)
		}
	}
	if err != nil {
		return 0, err
	}
	after, err := b.usedMemory(ctx)
	return math.Round((after - before) / float64(identities)), err
}

// settling is how long Redis may take to finish what it does on the side:
// resizing tables, shrinking the buffers of connections.
const settling = 300 * time.Millisecond

// usedMemory returns the memory that Redis has allocated, in bytes.
func (b *bench) usedMemory(ctx context.Context) (float64, error) {
	time.Sleep(settling)
	return b.number(ctx, "Memory", "used_memory")
}

// cpuMicros is the CPU time that the server has used, in user mode and in the kernel.
func (b *bench) cpuMicros(ctx context.Context) (float64, error) {
	system, err := b.number(ctx, "CPU", "used_cpu_sys")
	user, userErr := b.number(ctx, "CPU", "used_cpu_user")
	return (system + user) * 1e6, errors.Join(err, userErr)
}

// number is a field of INFO that is a number. https://redis.io/docs/latest/commands/info/
func (b *bench) number(ctx context.Context, section, name string) (float64, error) {
	info := b.client.InfoMap(ctx, section)
	if err := info.Err(); err != nil {
		return 0, err
	}
	return strconv.ParseFloat(info.Item(section, name), 64)
}

// version names the server.
func (b *bench) version(ctx context.Context) (string, error) {
	server := b.client.InfoMap(ctx, "server")
	if v := server.Item("Server", "valkey_version"); v != "" {
		return "Valkey " + v, nil
	}
	return "Redis " + server.Item("Server", "redis_version"), server.Err()
}
