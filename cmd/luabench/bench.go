package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"

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

// baseEvery is after how many subjects the base is measured again.
const baseEvery = 6

// bench measures subjects on one server.
type bench struct {
	shape
	effort

	client  *redis.Client // for what is not measured
	conns   []*redis.Conn
	base    *runner
	runners []*runner
}

// runner is a subject made ready to be sent, and what it took.
type runner struct {
	*subject
	batches  [][]call  // one for each connection
	micros   []float64 // CPU time of the server per check, one for each measurement
	multiple []float64 // the same in base's, one for each round
}

// newBench connects to a server. When the context ends, so do the connections.
func newBench(ctx context.Context, addr string, all []*subject, e effort, load shape) (*bench, error) {
	b := &bench{effort: e, shape: load, client: redis.NewClient(&redis.Options{
		Addr: addr, Password: os.Getenv("REDISCLI_AUTH"), Protocol: 2, DisableIdentity: true,
		PoolSize: load.connections + 1, MaxRetries: -1, ReadTimeout: -1, WriteTimeout: -1,
	})}
	context.AfterFunc(ctx, b.close)
	for range load.connections {
		b.conns = append(b.conns, b.client.Conn())
	}
	for _, s := range append([]*subject{base()}, all...) {
		r, err := b.ready(ctx, s)
		if err != nil {
			b.close()
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		b.runners = append(b.runners, r)
	}
	b.base, b.runners = b.runners[0], b.runners[1:]
	return b, nil
}

func (b *bench) close() { _ = b.client.Close() }

// ready brings the keys of the subject's identities into the state that is measured,
// and holds the first answer against what is to be measured.
func (b *bench) ready(ctx context.Context, s *subject) (*runner, error) {
	if err := b.load(ctx, s); err != nil {
		return nil, err
	}
	r := &runner{subject: s, batches: make([][]call, b.connections)}
	for i := range b.connections * b.depth {
		if err := b.prime(ctx, s, identity(i)); err != nil {
			return nil, err
		}
		r.batches[i/b.depth] = append(r.batches[i/b.depth], s.check(identity(i))...)
	}
	return r, nil
}

func identity(i int) string { return fmt.Sprintf("user-%04d", i) }

// prime makes the first check of an identity.
func (b *bench) prime(ctx context.Context, s *subject, id string) error {
	if s.prime != nil {
		if err := b.call(ctx, s.prime(id)); err != nil {
			return err
		}
	}
	return b.call(ctx, s.check(id))
}

// load has the server learn the scripts of a subject's checks.
func (b *bench) load(ctx context.Context, s *subject) error {
	for _, c := range s.check("") {
		if c.script == "" {
			continue
		}
		if err := b.client.ScriptLoad(ctx, c.script).Err(); err != nil {
			return err
		}
	}
	return nil
}

// call makes calls one by one.
func (b *bench) call(ctx context.Context, calls []call) error {
	for _, c := range calls {
		reply := b.client.Do(ctx, c.command...)
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

// measure runs the rounds, after one that only warms up.
func (b *bench) measure(ctx context.Context) error {
	for round := range b.rounds + 1 {
		if round == 1 {
			for _, r := range append(b.runners, b.base) {
				r.micros, r.multiple = nil, nil
			}
		}
		if err := b.round(ctx, round); err != nil {
			return err
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

// round measures every subject once, beginning with another one each time, and
// the base among them, so that what slows the machine for a while slows both.
func (b *bench) round(ctx context.Context, n int) error {
	first := len(b.base.micros)
	for i := range b.runners {
		if i%baseEvery == 0 {
			if err := b.run(ctx, b.base); err != nil {
				return err
			}
		}
		if err := b.run(ctx, b.runners[(n*baseEvery+i)%len(b.runners)]); err != nil {
			return err
		}
	}
	bases := b.base.micros[first:]
	unit := measure.Median(bases)
	for _, micros := range bases {
		b.base.multiple = append(b.base.multiple, micros/unit)
	}
	for _, r := range b.runners {
		r.multiple = append(r.multiple, r.micros[len(r.micros)-1]/unit)
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

// cpuMicros is the CPU time that the server has used, in user mode and in the kernel.
func (b *bench) cpuMicros(ctx context.Context) (float64, error) {
	system, err := b.number(ctx, "CPU", "used_cpu_sys")
	user, userErr := b.number(ctx, "CPU", "used_cpu_user")
	return (system + user) * 1e6, errors.Join(err, userErr)
}

// version names the server.
func (b *bench) version(ctx context.Context) string {
	server := b.client.InfoMap(ctx, "server")
	if v := server.Item("Server", "valkey_version"); v != "" {
		return "Valkey " + v
	}
	return "Redis " + server.Item("Server", "redis_version")
}

// number is a field of INFO that is a number. https://redis.io/docs/latest/commands/info/
func (b *bench) number(ctx context.Context, section, name string) (float64, error) {
	info := b.client.InfoMap(ctx, section)
	if err := info.Err(); err != nil {
		return 0, err
	}
	return strconv.ParseFloat(info.Item(section, name), 64)
}
