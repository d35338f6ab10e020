package main

import (
	"context"
	"fmt"
	"os"
	"slices"

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

// run measures every setup under every load in each round. The rounds begin with
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

// runOnce measures one setup under every load.
func (b *bench) runOnce(ctx context.Context, s *setup, o options, r results) error {
	defer b.bringDown()
	if err := b.bringUp(ctx, s); err != nil {
		return err
	}
	if _, err := b.measure(ctx, closedLoads[0], min(o.seconds, warmUpSeconds)); err != nil {
		return err
	}
	for _, l := range append(slices.Clone(closedLoads), load{id: latencyLoad, rate: o.rate}) {
		if !s.under(l.id) {
			continue
		}
		sample, err := b.measureQuietly(ctx, l, o)
		if err != nil {
			return err
		}
		r.add(s.id, l.id, sample)
	}
	return nil
}
