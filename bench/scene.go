package main

import (
	"context"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
)

// scene is a situation other than that of the main tables: some setups, next to each
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
	all := []*scene{
		{
			id: "identities", title: "100,000 identities by Zipf (s = 1.1), 16 connections",
			setups: beneath("identities", sluice, pair),
			load:   load{connections: 16, identities: manyIdentities},
		},
		{
			id: "far", title: "Redis 1 ms away (a round trip), 64 connections", begin: farRedis,
			setups: beneath("far", sluice, leased, pair),
			load:   load{connections: 64},
		},
		{
			id: "saving", title: fmt.Sprintf("Redis saves a snapshot of a million keys again and again, open loop of %d "+
				"requests/s", rate), begin: savingRedis,
			setups: beneath("saving", sluice, leased, pair),
			load:   load{rate: rate},
		},
	}
	for _, s := range all {
		s.load.id = s.id
	}
	many := all[0].setups
	// Sluice tells identities by the query, which h2load can vary, the ratelimit filter by the path, which has
	// the query in it.
	many[0].edit = inRedis(fmt.Sprintf(`{"name": "bench", "key": [{"query": "u"}], "limits": [%s]}`, gcra(manyPerHour)))
	many[1].edit = edit(rateLimitFilter).and(func(c *envoyconf.Config, _ place) { describe(c, ":path", "client") })
	return all
}

// beneath are setups of the main tables in a scene.
func beneath(scene string, ids ...string) []*setup {
	all := choose(func(s *setup) bool { return slices.Contains(ids, s.id) })
	for _, s := range all {
		s.id += "-" + scene
	}
	return all
}

// play measures a scene.
func (b *bench) play(ctx context.Context, s *scene, p plan, r results) error {
	if s.begin != nil {
		end, err := s.begin(ctx, b)
		if err != nil {
			return err
		}
		defer end()
	}
	p.setups, p.loads = s.setups, []load{s.load}
	return b.run(ctx, p, r)
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
	b.farRedis = l.Addr().(*net.TCPAddr).Port
	return func() { l.Close(); b.farRedis = 0 }, nil
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

// fillScript writes so many keys.
const fillScript = `for i = 1, ARGV[1] do redis.call('SET', 'filling:' .. i, 'a value of a usual length') end return 0`

// savingRedis fills Redis and has it save snapshots, one after the other.
func savingRedis(ctx context.Context, b *bench) (func(), error) {
	if err := b.redis.client.WithTimeout(startLimit).Eval(ctx, fillScript, nil, savedKeys).Err(); err != nil {
		return nil, err
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
