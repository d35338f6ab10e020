package main

import (
	"context"
	"fmt"
	"os"

	"github.com/sluiceproxy/sluice/internal/process"
)

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

	envoy   *envoy
	service *subprocess // nil: it has none
	relay   *envoy      // nil: it has none
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
	if b.upstream, err = unwatched.startEnvoy(ctx, dir, "upstream", answering(at, loopback), at); err != nil {
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
	if s.peer != nil && b.service == "" {
		if b.service, err = buildPeer(ctx, b.root, b.dir); err != nil {
			return err
		}
	}
	if s.peer != nil {
		if r.service, err = b.under.startPeer(ctx, b.service, b.dir, s.id+"-service", s.peer, at); err != nil {
			return err
		}
	}
	if s.relay {
		if r.relay, err = b.startRelay(ctx, at); err != nil {
			return err
		}
	}
	config, err := s.config(at)
	if err != nil {
		return err
	}
	r.envoy, err = b.under.startEnvoy(ctx, b.dir, s.id, config, at)
	return err
}

// bringDown ends what bringUp has started.
func (b *bench) bringDown() {
	if b.measured == nil {
		return
	}
	for _, p := range b.measured.processes() {
		p.stop()
	}
	b.measured = nil
}

// processes are a setup's own.
func (r *running) processes() (all []*subprocess) {
	if r.service != nil {
		all = append(all, r.service)
	}
	if r.relay != nil {
		all = append(all, r.relay.subprocess)
	}
	if r.envoy != nil {
		all = append(all, r.envoy.subprocess)
	}
	return all
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
		all = append(all, b.measured.processes()...)
	}
	return all
}

// stop ends everything that was started.
func (b *bench) stop() {
	for _, p := range b.processes() {
		p.stop()
	}
}

// plan lists the measurements.
type plan struct {
	setups          []*setup
	warmUp          load // not measured: V8 compiles what is hot a second time
	loads           []load
	rounds, seconds int  // how often; of each load
	quiet           bool // what others disturb is measured again
}

// warmUpSeconds is how long a setup is warmed up, at most.
const warmUpSeconds = 2

// run measures every setup under every load in each round. The rounds begin with
// another setup each, so that what slows the machine for a while slows different
// ones, and start its processes anew, as how fast one is depends on where its
// memory happens to be.
func (b *bench) run(ctx context.Context, p plan, r results) error {
	for round := range p.rounds {
		for i := range p.setups {
			s := p.setups[(i+round)%len(p.setups)]
			fmt.Fprintf(os.Stderr, "\r%-60s", fmt.Sprintf("round %d of %d: %s", round+1, p.rounds, s.id))
			if err := b.runOnce(ctx, s, p, r); err != nil {
				return fmt.Errorf("%s: %w", s.id, err)
			}
		}
	}
	fmt.Fprintf(os.Stderr, "\r%60s\r", "")
	return nil
}

// runOnce measures one setup under every load.
func (b *bench) runOnce(ctx context.Context, s *setup, p plan, r results) error {
	defer b.bringDown()
	if err := b.bringUp(ctx, s); err != nil {
		return err
	}
	if _, err := b.measure(ctx, b.measured, p.warmUp, min(p.seconds, warmUpSeconds)); err != nil {
		return err
	}
	for _, l := range p.loads {
		if !s.under(l.id) {
			continue
		}
		sample, err := b.measureQuietly(ctx, l, p)
		if err != nil {
			return err
		}
		r.add(s.id, l.id, sample)
	}
	return nil
}
