package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
)

// bench has the programs that run from beginning to end, and the setup that is measured.
type bench struct {
	root, dir string // of the repository; of logs and configurations
	redis     *redisServer
	upstream  *envoy
	service   string   // the program of envoyproxy/ratelimit; empty until a setup needs it
	measured  *running // nil: none is up
	repeated  int      // measurements that others disturbed
	nextPort  int      // the first to try, from lowPort
	farRedis  int      // port of the relay in front of Redis; 0: there is none
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

// program is the path of a tool: what the environment variable of its name says
// (REDIS_SERVER), else its name, for PATH.
func program(name string) string {
	if path := os.Getenv(strings.ToUpper(strings.ReplaceAll(name, "-", "_"))); path != "" {
		return path
	}
	return name
}

// start runs what all setups share. The bench is to be stopped even after an error.
func start(ctx context.Context, root, dir string) (*bench, error) {
	b := &bench{root: root, dir: dir, nextPort: rand.IntN(portCount)}
	ports, err := b.freePorts(ctx, 3)
	if err != nil {
		return b, err
	}
	if b.redis, err = unwatched.startRedis(ctx, dir, ports[0]); err != nil {
		return b, err
	}
	at := place{listener: ports[1], admin: ports[2]}
	b.upstream, err = unwatched.startEnvoy(ctx, dir, "upstream", answering(at), at)
	return b, err
}

// bringUp starts a setup's own processes, until bringDown.
func (b *bench) bringUp(ctx context.Context, s *setup) error {
	ports, err := b.freePorts(ctx, 5)
	if err != nil {
		return err
	}
	at := place{
		timeout:  b.under.timeout(),
		upstream: b.upstream.port, redis: b.redis.port, root: b.root,
		listener: ports[0], admin: ports[1], service: ports[2], health: ports[3], debug: ports[4],
	}
	if b.farRedis > 0 {
		at.redis = b.farRedis
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
	c, err := base(at)
	if err != nil {
		return err
	}
	s.edit(c, at)
	text, err := c.YAML()
	if err != nil {
		return err
	}
	r.envoy, err = b.under.startEnvoy(ctx, b.dir, s.id, string(text), at)
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
func (b *bench) run(ctx context.Context, p plan, r results, progress io.Writer) error {
	for round := range p.rounds {
		for i := range p.setups {
			s := p.setups[(i+round)%len(p.setups)]
			fmt.Fprintf(progress, "\r%-60s", fmt.Sprintf("round %d of %d: %s", round+1, p.rounds, s.id))
			if err := b.runOnce(ctx, s, p, r); err != nil {
				return fmt.Errorf("%s: %w", s.id, err)
			}
		}
	}
	fmt.Fprintf(progress, "\r%60s\r", "")
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
