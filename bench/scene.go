package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
)

// scene is a situation other than that of the main tables: some setups, beside each
// other, under one load.
type scene struct {
	id, title string
	setups    []*setup
	load      load
	// begin makes the situation, and end ends it; nil if there is nothing to make.
	begin func(ctx context.Context, b *bench) (end func(), err error)
}

// The scenes' numbers.
const (
	manyIdentities = 100_000
	farMicros      = 500 // each way
	savedKeys      = 1_000_000
)

func scenes(rate int) []*scene {
	return []*scene{
		{
			id: "identities", title: "100,000 identities by Zipf (s = 1.1), 16 connections",
			setups: []*setup{
				{id: sluice + "-identities", title: "Sluice, Redis", status: 200, edit: byQuery(gcra(manyPerHour))},
				{
					id: pair + "-identities", title: "Envoy ratelimit + service, Redis", status: 200, edit: byPath,
					peer: &peerOptions{limit: manyPerHour},
				},
			},
			load: load{id: "identities", connections: 16, identities: manyIdentities},
		},
		{
			id: "far", title: "Redis 1 ms away (a round trip), 64 connections", begin: farRedis,
			setups: []*setup{
				{id: sluice + "-far", title: "Sluice, Redis", status: 200, edit: inRedis(gcra(manyPerHour))},
				{id: leased + "-far", title: "Sluice, Redis, leased", status: 200, edit: inRedis(leasedLimit)},
				{
					id: pair + "-far", title: "Envoy ratelimit + service, Redis", status: 200, edit: rateLimitFilter,
					peer: &peerOptions{limit: manyPerHour},
				},
			},
			load: load{id: "far", connections: 64},
		},
		{
			id: "saving", title: fmt.Sprintf("Redis saves a snapshot of a million keys again and again, open loop of %d "+
				"requests/s", rate), begin: savingRedis,
			setups: []*setup{
				{id: sluice + "-saving", title: "Sluice, Redis", status: 200, edit: inRedis(gcra(manyPerHour))},
				{id: leased + "-saving", title: "Sluice, Redis, leased", status: 200, edit: inRedis(leasedLimit)},
				{
					id: pair + "-saving", title: "Envoy ratelimit + service, Redis", status: 200, edit: rateLimitFilter,
					peer: &peerOptions{limit: manyPerHour},
				},
			},
			load: load{id: "saving", rate: rate},
		},
	}
}

// byQuery has Sluice tell identities by the query, which h2load can vary.
func byQuery(limits string) func(*envoyconf.Config, place) {
	return func(c *envoyconf.Config, at place) {
		c.SetPlugin(fmt.Sprintf(`{"redis": {"cluster": "redis", "key_prefix": "bench-%d"}, "headers": ["x-ratelimit"],
			"rules": [{"name": "bench", "key": [{"query": "u"}], "limits": [%s]}]}`, at.listener, limits))
	}
}

// byPath has the ratelimit filter tell them by the path, which has the query in it.
func byPath(c *envoyconf.Config, at place) {
	rateLimitFilter(c, at)
	c.Set(route+"/rate_limits", c.Fragment("[{actions: [{request_headers: {header_name: ':path', descriptor_key: "+
		"client}}]}]"))
}

// act measures every scene.
func (b *bench) act(ctx context.Context, all []*scene, p plan, r results, progress io.Writer) error {
	for _, s := range all {
		if err := b.play(ctx, s, p, r, progress); err != nil {
			return fmt.Errorf("%s: %w", s.id, err)
		}
	}
	return nil
}

func (b *bench) play(ctx context.Context, s *scene, p plan, r results, progress io.Writer) error {
	if s.begin != nil {
		end, err := s.begin(ctx, b)
		if err != nil {
			return err
		}
		defer end()
	}
	p.setups, p.loads = s.setups, []load{s.load}
	return b.run(ctx, p, r, progress)
}

// farRedis puts Redis behind a relay that holds every byte for a while.
func farRedis(_ context.Context, b *bench) (func(), error) {
	l, err := net.Listen("tcp4", addr(0))
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go relay(c, addr(b.redis.port))
		}
	}()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err == nil {
		b.farRedis, err = strconv.Atoi(port)
	}
	return func() { l.Close(); b.farRedis = 0 }, err
}

func relay(near net.Conn, to string) {
	defer near.Close()
	far, err := net.Dial("tcp4", to)
	if err != nil {
		return
	}
	defer far.Close()
	go late(far, near)
	late(near, far)
}

// piece is bytes on their way, and when they arrive.
type piece struct {
	bytes []byte
	due   time.Time
}

// late copies what is read to another connection, each piece after its time.
func late(to, from net.Conn) {
	pieces := make(chan piece, 1024)
	go func() {
		defer close(pieces)
		buffer := make([]byte, 64<<10)
		for {
			n, err := from.Read(buffer)
			if err != nil {
				return
			}
			pieces <- piece{slices.Clone(buffer[:n]), time.Now().Add(farMicros * time.Microsecond)}
		}
	}()
	for p := range pieces {
		time.Sleep(time.Until(p.due))
		if _, err := to.Write(p.bytes); err != nil {
			to.Close()
			return
		}
	}
	to.Close()
}

// fillScript writes keys ARGV[1] to ARGV[2].
const fillScript = `for i = ARGV[1], ARGV[2] do redis.call('SET', 'filling:' .. i, 'a value of a usual length') end`

// savingRedis fills Redis and has it save snapshots, one after the other.
func savingRedis(ctx context.Context, b *bench) (func(), error) {
	const batch = 10_000
	for first := 0; first < savedKeys; first += batch {
		if err := b.redis.client.Eval(ctx, fillScript, nil, first, first+batch-1).Err(); err != nil &&
			err.Error() != "redis: nil" {
			return nil, err
		}
	}
	saving, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for saving.Err() == nil {
			_ = b.redis.client.BgSave(saving).Err() // one that is under way is refused
			time.Sleep(10 * time.Millisecond)
		}
	}()
	return func() { stop(); <-done; _ = b.redis.client.FlushAll(ctx).Err() }, nil
}
