package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
)

// How many requests each setup is asked. The first are not watched, which is faster: V8 compiles a
// second time what is hot. Those before the ones that count fill caches.
const (
	hotRequests       = 10_000
	uncountedRequests = 500
	countedRequests   = 2000
)

// How many connections ask. One at a time counts: how many requests are read together, and how many
// commands Redis finds at once, would depend on what else the machine does.
const (
	hotConnections     = 16
	countedConnections = 1
)

// countedAtOnce is how many setups are counted at a time: what else the machine does changes how long
// a count takes, and not its result.
const countedAtOnce = 2

// countedSetups are those whose instructions are counted, by their names or all.
func countedSetups(names []string) []*setup {
	all := choose(func(s *setup) bool {
		return slices.Contains(names, s.id) || slices.Equal(names, []string{"all"}) && !s.onlyTimed
	})
	for _, s := range all {
		if s.id == leased { // how many units a worker takes by itself depends on how fast it is
			s.edit = limited(strings.Replace(leasedLimit, `{"ttl": "200ms"}`, `{"units": 1000, "ttl": "10s"}`, 1))
		}
	}
	return all
}

// countAll counts the instructions of setups.
func (b *bench) countAll(ctx context.Context, all []*setup) (result map[string]counted, err error) {
	if b.clock, err = buildClock(ctx, b.root, b.dir); err != nil {
		return nil, err
	}
	result = map[string]counted{}
	var lock sync.Mutex
	workers, ctx := errgroup.WithContext(ctx)
	workers.SetLimit(countedAtOnce)
	for _, s := range all {
		workers.Go(func() error {
			own := *b
			c, err := own.count(ctx, s)
			if err != nil {
				return fmt.Errorf("%s: %w", s.id, err)
			}
			lock.Lock()
			defer lock.Unlock()
			result[s.id] = c
			fmt.Fprintf(os.Stderr, "%s: %+v\n", s.id, c)
			return nil
		})
	}
	return result, workers.Wait()
}

// count counts the instructions of one setup, whose processes live for that alone.
func (b *bench) count(ctx context.Context, s *setup) (c counted, err error) {
	if b.dir, err = os.MkdirTemp(b.dir, s.id); err != nil {
		return c, err
	}
	b.under, b.measured = callgrind(b.dir, b.clock), nil
	ports, err := freePorts(1)
	if err != nil {
		return c, err
	}
	if b.redis, err = b.under.startRedis(ctx, b.dir, ports[0]); err != nil {
		return c, err
	}
	defer b.redis.stop()
	defer b.bringDown()
	if err := b.bringUp(ctx, s); err != nil {
		return c, err
	}
	before, _, err := b.redis.work(ctx)
	if err != nil {
		return c, err
	}
	for _, step := range []func() error{
		func() error { return b.ask(ctx, hotConnections, hotRequests, 1) },
		func() error { return b.tellEach(ctx, "instrumentation", "on") },
		func() error { return b.ask(ctx, countedConnections, uncountedRequests, 1) },
		func() error { return b.tellEach(ctx, "zero") },
		func() error { return b.ask(ctx, countedConnections, countedRequests, 0) },
		func() error { return b.tellEach(ctx, "dump") },
	} {
		if err := step(); err != nil {
			return c, err
		}
	}
	after, _, err := b.redis.work(ctx)
	if err != nil {
		return c, err
	}
	return b.read(after.sentSince(before) > 0)
}

// counting are the processes of a setup whose instructions count.
func (b *bench) counting() []*subprocess {
	return append(slices.Clone(b.measured.own), b.redis.subprocess)
}

// tellEach has callgrind do something in each process of a setup.
func (b *bench) tellEach(ctx context.Context, command ...string) error {
	for _, p := range b.counting() {
		if err := tell(ctx, b.dir, p, command...); err != nil {
			return err
		}
	}
	return nil
}

// ask sends a number of requests, all of which but a few must be answered as they should: the first
// request of a limit of one is admitted.
func (b *bench) ask(ctx context.Context, connections, n int, others int64) error {
	o, err := load{connections: connections, requests: n}.run(ctx, b.measured.envoy.url+b.measured.path, 0)
	if err != nil {
		return err
	}
	failed, err := b.measured.envoy.failures(ctx)
	if err != nil {
		return err
	}
	if right := o.statuses[b.measured.status/100*100]; right < int64(n)-others || failed > 0 {
		err := fmt.Errorf("%d of %d requests answered with %d, %d undecided", right, n, b.measured.status, failed)
		return b.measured.envoy.explain(err)
	}
	return nil
}

// read takes the sums out of what callgrind has written: of an Envoy the busiest thread, which is its
// worker, of the others all.
func (b *bench) read(asksRedis bool) (c counted, err error) {
	for _, p := range b.counting() {
		threads, err := dumped(b.dir, p.PID())
		if err != nil {
			return c, err
		}
		all := int64(0)
		for _, n := range threads {
			all += n
		}
		switch {
		case p == b.measured.envoy.subprocess:
			c.Envoy = slices.Max(threads) / countedRequests
		case p == b.measured.relay:
			c.Relay = slices.Max(threads) / countedRequests
		case p == b.measured.service:
			c.Service = all / countedRequests
		case asksRedis:
			c.Redis = all / countedRequests
		}
	}
	return c, nil
}
