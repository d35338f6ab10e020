package main

import (
	"context"
	"fmt"
	"io"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/measure"
)

// planned are the limits that docs/capacity.md plans with.
func planned() []*subject {
	return []*subject{
		allowing("fixed_window", 0, daily),
		allowing("gcra", 0, gcra),
		allowing("sliding_window_counter", 0, counter),
		allowing("two limits in one rule", 0, gcra, counter),
		allowing("three limits in one rule", 0, gcra, counter, daily),
		denying("denied: gcra", 0, usedUp(algo.GCRA)),
	}
}

// plan measures Redis' CPU time of a check with the kernel's part in it: of checks that
// come one by one, as from workers of Envoy that are not busy, and in batches, as from
// those that are. It leaves no key behind.
func plan(ctx context.Context, out io.Writer, addr string, clients int, e effort) error {
	loads := []shape{{clients, 1}, usual}
	columns, server := make([]map[string]float64, len(loads)), ""
	for i, load := range loads {
		b, err := newBench(ctx, addr, planned(), e, load)
		if err != nil {
			return err
		}
		defer b.close()
		if err := b.measure(ctx); err != nil {
			return err
		}
		server, columns[i] = b.version(ctx), map[string]float64{}
		for _, r := range b.runners {
			columns[i][r.name] = measure.Median(r.micros)
			if err := b.remove(ctx, r.subject); err != nil {
				return err
			}
		}
	}
	fmt.Fprintf(out, "%s; microseconds of its CPU for a check, in user mode and in the kernel; median of %d rounds\n",
		server, e.rounds)
	fmt.Fprintf(out, "one by one: %d connections, a check in flight on each; batched: %d connections, %d checks in a "+
		"write\n\n",
		clients, usual.connections, usual.depth)
	fmt.Fprintf(out, "%-40s %10s %10s\n", "", "one by one", "batched")
	for _, s := range planned() {
		fmt.Fprintf(out, "%-40s %10.1f %10.1f\n", s.name, columns[0][s.name], columns[1][s.name])
	}
	return nil
}

// remove deletes the keys of a subject's identities.
func (b *bench) remove(ctx context.Context, s *subject) error {
	for i := range b.connections * b.depth {
		for _, c := range s.check(identity(i)) {
			if err := b.client.Del(ctx, c.keys...).Err(); err != nil {
				return err
			}
		}
	}
	return nil
}
