package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/sluiceproxy/sluice/algo"
)

// remembered is a subject of whose state the size is measured, after so many
// charges of one unit to each identity.
type remembered struct {
	*subject
	charges int
}

// rememberings are subjects whose states differ in size.
func rememberings() []remembered {
	var all []remembered
	add := func(charges int, name string, l algo.Limit) {
		all = append(all, remembered{allowing(name, 0, l), charges})
	}
	add(1, "fixed_window", fixed)
	add(1, "fixed_window, first_request", first)
	for _, n := range []int64{1, 10, 60} {
		all = append(all, remembered{counting(fmt.Sprintf("sliding_window_counter, %d sub_windows", n), 0, hour, n), 1})
	}
	// What has refilled leaves nothing behind: a unit takes 86 s here.
	slow := algo.Limit{Units: 1000, Burst: 1000, WindowMicros: day}
	for _, a := range []algo.Algorithm{algo.TokenBucket, algo.LeakyBucket, algo.GCRA} {
		slow.Algorithm = a
		add(1, a.String(), slow)
	}
	stepped := slow
	stepped.Algorithm, stepped.Steps = algo.TokenBucket, true
	add(1, "token_bucket, refill step", stepped)
	slow.Queue, slow.MaxDelayMicros = true, hour
	for _, a := range []algo.Algorithm{algo.LeakyBucket, algo.GCRA} {
		slow.Algorithm = a
		add(1, a.String()+", queue", slow)
	}
	for _, entries := range []int{1, 20, 128, 1000} {
		all = append(all, remembered{holding(fmt.Sprintf("concurrency, %d in flight", entries)), entries})
	}
	for _, entries := range []int{1, 16, 128, 1000, 10_000} {
		add(entries, fmt.Sprintf("sliding_window_log, %d entries", entries), long)
	}
	return all
}

// fewest is the least number of identities of which the mean is taken.
const fewest = 10

// reportMemory prints what Redis' used_memory grows by for each identity. That is
// more than MEMORY USAGE says of its key, which leaves out the table of expiries
// (https://redis.io/docs/latest/commands/memory-usage/). It returns the same by the subjects' names.
func (b *bench) reportMemory(ctx context.Context, out io.Writer) (map[string]float64, error) {
	fmt.Fprintf(out, "\nused_memory of one identity, in bytes\n")
	sizes := map[string]float64{}
	for _, s := range rememberings() {
		size, err := b.size(ctx, s, b.effort.charges/s.charges+fewest)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		sizes[s.name] = size
		fmt.Fprintf(out, row, s.name, fmt.Sprintf("%.0f", size), "", "", "", "")
	}
	return sizes, nil
}

// size returns what an identity's state takes, over so many identities. It empties
// Redis.
func (b *bench) size(ctx context.Context, s remembered, identities int) (bytes float64, err error) {
	if err := b.client.Do(ctx, "FLUSHALL", "SYNC").Err(); err != nil {
		return 0, err
	}
	if err := b.load(ctx, s.subject); err != nil {
		return 0, err
	}
	before, err := b.usedMemory(ctx)
	for i := 0; i < identities && err == nil; i++ {
		err = b.charge(ctx, s, identity(i))
	}
	if err != nil {
		return 0, err
	}
	after, err := b.usedMemory(ctx)
	return (after - before) / float64(identities), err
}

// charge brings an identity's state to its size.
func (b *bench) charge(ctx context.Context, s remembered, id string) error {
	if err := b.prime(ctx, s.subject, id); err != nil {
		return err
	}
	var batch []call
	for range s.charges - 1 {
		batch = append(batch, s.check(id)[0])
	}
	return exchange(ctx, b.client, batch)
}

// settling is how long Redis may take to finish what it does on the side:
// resizing tables, shrinking the buffers of connections.
const settling = 300 * time.Millisecond

// usedMemory returns the memory that Redis has allocated, in bytes.
func (b *bench) usedMemory(ctx context.Context) (float64, error) {
	time.Sleep(settling)
	return b.number(ctx, "Memory", "used_memory")
}
