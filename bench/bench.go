package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
)

// bench is the processes of all setups. They run from beginning to end; only
// the one that is measured has something to do.
type bench struct {
	root, dir string // of the repository; of logs and configurations
	redis     *redisServer
	upstream  *envoy
	setups    []*running
	nextPort  int // the first to try, from lowPort
}

// running is a setup with its processes.
type running struct {
	*setup

	envoy   *envoy
	service *process // nil: it has none
}

// program is the path of a tool: what the environment variable of its name says
// (REDIS_SERVER), else its name, for PATH.
func program(name string) string {
	if path := os.Getenv(strings.ToUpper(strings.ReplaceAll(name, "-", "_"))); path != "" {
		return path
	}
	return name
}

// start runs everything. The bench is to be stopped even after an error.
func start(ctx context.Context, root, dir string, chosen []*setup) (*bench, error) {
	b := &bench{root: root, dir: dir, nextPort: rand.IntN(portCount)}
	ports, err := b.freePorts(ctx, 3)
	if err != nil {
		return b, err
	}
	if b.redis, err = startRedis(ctx, dir, ports[0]); err != nil {
		return b, err
	}
	at := place{listener: ports[1], admin: ports[2]}
	if b.upstream, err = startEnvoy(ctx, dir, "upstream", answering(at), at); err != nil {
		return b, err
	}
	service, err := buildPeer(ctx, root, dir)
	if err != nil {
		return b, err
	}
	for _, s := range chosen {
		if err := b.startSetup(ctx, s, service, place{upstream: at.listener, redis: b.redis.port, root: root}); err != nil {
			return b, fmt.Errorf("%s: %w", s.id, err)
		}
	}
	return b, nil
}

func (b *bench) startSetup(ctx context.Context, s *setup, service string, at place) error {
	ports, err := b.freePorts(ctx, 5)
	if err != nil {
		return err
	}
	at.listener, at.admin, at.service, at.health, at.debug = ports[0], ports[1], ports[2], ports[3], ports[4]
	r := &running{setup: s}
	b.setups = append(b.setups, r)
	if s.peer != nil {
		if r.service, err = startPeer(ctx, service, b.dir, s.id+"-service", s.peer, at); err != nil {
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
	r.envoy, err = startEnvoy(ctx, b.dir, s.id, string(text), at)
	return err
}

// processes are all that run.
func (b *bench) processes() (all []*process) {
	if b.redis != nil {
		all = append(all, b.redis.process)
	}
	if b.upstream != nil {
		all = append(all, b.upstream.process)
	}
	for _, s := range b.setups {
		if s.service != nil {
			all = append(all, s.service)
		}
		if s.envoy != nil {
			all = append(all, s.envoy.process)
		}
	}
	return all
}

// stop ends what was started.
func (b *bench) stop() {
	for _, p := range b.processes() {
		p.stop()
	}
}

// warmUp makes every process do what it will be measured at: V8 compiles what
// is hot a second time.
func (b *bench) warmUp(ctx context.Context, l load, seconds int, progress io.Writer) error {
	for _, s := range b.setups {
		fmt.Fprintf(progress, "\r%-60s", "warming up: "+s.id)
		if _, err := b.measure(ctx, s, l, seconds); err != nil {
			return err
		}
	}
	return nil
}

// measureAll puts every load on every setup in each round, beginning with
// another setup each time, so that what slows the machine for a while slows
// different ones.
func (b *bench) measureAll(ctx context.Context, loads []load, rounds, seconds int, progress io.Writer) (results, error) {
	r := results{}
	for round := range rounds {
		for i := range b.setups {
			s := b.setups[(i+round)%len(b.setups)]
			for _, l := range loads {
				fmt.Fprintf(progress, "\r%-60s", fmt.Sprintf("round %d of %d: %s, %s", round+1, rounds, s.id, l.id))
				measured, err := b.measure(ctx, s, l, seconds)
				if err != nil {
					return nil, err
				}
				r.add(s.id, l.id, measured)
			}
		}
	}
	fmt.Fprintf(progress, "\r%60s\r", "")
	return r, nil
}
