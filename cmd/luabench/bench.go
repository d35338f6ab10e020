package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/sluiceproxy/sluice/redisresp"
)

// shape is the load: each connection writes a batch of checks, each of an identity
// of its own, and the next batch when all are answered.
type shape struct {
	connections int
	depth       int // checks in a batch
}

// usual measures the scripts: what the kernel takes is shared by a batch.
var usual = shape{connections: 8, depth: 16}

// baseEvery is after how many subjects the base is measured again.
const baseEvery = 6

// bench measures subjects on one server.
type bench struct {
	shape

	foreign bool // the server is somebody else's: what it holds stays
	checks  int  // in one measurement
	control *conn
	conns   []*conn
	base    *runner
	runners []*runner
}

// runner is a subject made ready to be sent, and what it took.
type runner struct {
	*subject
	batches  [][]byte  // one for each connection
	replies  int       // to a batch
	micros   []float64 // CPU time of the server per check, one for each measurement
	multiple []float64 // the same in base's, one for each round
}

func newBench(ctx context.Context, addr string, all []*subject, checks int, load shape) (*bench, error) {
	b := &bench{checks: checks, shape: load}
	for range load.connections + 1 {
		c, err := dial(ctx, addr)
		if err != nil {
			b.close()
			return nil, err
		}
		b.conns = append(b.conns, c)
	}
	b.control, b.conns = b.conns[load.connections], b.conns[:load.connections]
	first := base()
	for _, s := range append([]*subject{&first}, all...) {
		r, err := b.ready(s)
		if err != nil {
			b.close()
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		b.runners = append(b.runners, r)
	}
	b.base, b.runners = b.runners[0], b.runners[1:]
	return b, nil
}

func (b *bench) close() {
	for _, c := range b.conns {
		c.close()
	}
	if b.control != nil {
		b.control.close()
	}
}

// ready loads the subject's scripts and primes its keys.
func (b *bench) ready(s *subject) (*runner, error) {
	if err := b.load(s); err != nil {
		return nil, err
	}
	r := &runner{subject: s, replies: b.depth * len(s.check("")), batches: make([][]byte, b.connections)}
	for i := range b.connections * b.depth {
		if err := b.prime(s, identity(i)); err != nil {
			return nil, err
		}
		for _, c := range s.check(identity(i)) {
			r.batches[i/b.depth] = appendCommand(r.batches[i/b.depth], c.command)
		}
	}
	return r, nil
}

func identity(i int) string { return fmt.Sprintf("user-%04d", i) }

func (b *bench) load(s *subject) error {
	for _, script := range s.scripts {
		if _, err := b.control.do("SCRIPT", "LOAD", script); err != nil {
			return err
		}
	}
	return nil
}

// prime brings an identity's keys into the state that is measured, and holds
// the first answer against what is to be measured.
func (b *bench) prime(s *subject, id string) error {
	if s.prime != nil {
		if err := b.call(s.prime(id)); err != nil {
			return err
		}
	}
	return b.call(s.check(id))
}

func (b *bench) call(calls []call) error {
	for _, c := range calls {
		reply, err := b.control.do(c.command...)
		if err != nil {
			return err
		}
		if err := c.accept(reply); err != nil {
			return err
		}
	}
	return nil
}

// measure runs the rounds, after one that only warms up.
func (b *bench) measure(rounds int) error {
	for round := range rounds + 1 {
		if round == 1 {
			b.forget()
		}
		if err := b.round(round); err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "\rround %d of %d ", round, rounds)
	}
	fmt.Fprintln(os.Stderr)
	for _, r := range b.runners { // that still is what it was
		if err := b.call(r.check(identity(0))); err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
	}
	return nil
}

func (b *bench) forget() {
	for _, r := range append(b.runners, b.base) {
		r.micros, r.multiple = nil, nil
	}
}

// round measures every subject once, beginning with another one each time, and
// the base among them, so that what slows the machine for a while slows both.
func (b *bench) round(n int) error {
	first := len(b.base.micros)
	for i := range b.runners {
		if i%baseEvery == 0 {
			if err := b.run(b.base); err != nil {
				return err
			}
		}
		if err := b.run(b.runners[(n*baseEvery+i)%len(b.runners)]); err != nil {
			return err
		}
	}
	bases := b.base.micros[first:]
	unit := median(bases)
	for _, micros := range bases {
		b.base.multiple = append(b.base.multiple, micros/unit)
	}
	for _, r := range b.runners {
		r.multiple = append(r.multiple, r.micros[len(r.micros)-1]/unit)
	}
	return nil
}

// run sends a subject's checks and takes the CPU time that they cost.
func (b *bench) run(r *runner) error {
	batches := max(b.checks/(b.connections*b.depth), 1)
	before, err := b.cpuMicros()
	if err != nil {
		return err
	}
	var group sync.WaitGroup
	failures := make(chan error, b.connections)
	for i, c := range b.conns {
		group.Go(func() {
			for range batches {
				if err := c.exchange(r.batches[i], r.replies); err != nil {
					failures <- fmt.Errorf("%s: %w", r.name, err)
					return
				}
			}
		})
	}
	group.Wait()
	close(failures)
	if err := <-failures; err != nil {
		return err
	}
	after, err := b.cpuMicros()
	r.micros = append(r.micros, (after-before)/float64(batches*b.connections*b.depth))
	return err
}

// cpuMicros is the CPU time that the server has used, in user mode and in the
// kernel. https://redis.io/docs/latest/commands/info/
func (b *bench) cpuMicros() (float64, error) {
	reply, err := b.control.do("INFO", "cpu")
	if err != nil {
		return 0, err
	}
	var sum float64
	for _, field := range []string{"used_cpu_sys", "used_cpu_user"} {
		seconds, err := strconv.ParseFloat(infoField(reply, field), 64)
		if err != nil {
			return 0, fmt.Errorf("INFO cpu: %s: %w", field, err)
		}
		sum += seconds * 1e6
	}
	return sum, nil
}

// version names the server.
func (b *bench) version() (string, error) {
	reply, err := b.control.do("INFO", "server")
	if err != nil {
		return "", err
	}
	if v := infoField(reply, "valkey_version"); v != "" {
		return "Valkey " + v, nil
	}
	return "Redis " + infoField(reply, "redis_version"), nil
}

// infoField returns the value of a line "name:value"; "" if there is none.
func infoField(reply redisresp.Reply, name string) string {
	for line := range bytes.Lines(reply.Bytes) {
		if value, ok := strings.CutPrefix(string(line), name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
