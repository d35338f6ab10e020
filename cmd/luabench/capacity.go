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
// those that are. Then the sizes.
func plan(ctx context.Context, out io.Writer, addr string, foreign bool, clients int, e effort) error {
	single, err := micros(ctx, addr, shape{clients, 1}, e)
	if err != nil {
		return err
	}
	batched, err := micros(ctx, addr, usual, e)
	if err != nil {
		return err
	}
	b, err := newBench(ctx, addr, nil, e, shape{1, 1})
	if err != nil {
		return err
	}
	defer b.close()
	b.foreign = foreign
	fmt.Fprintf(out, "%s; microseconds of its CPU for a check, in user mode and in the kernel; median of %d rounds\n",
		b.version(ctx), e.rounds)
	fmt.Fprintf(out, "one by one: %d connections, a check in flight on each; batched: %d connections, %d checks in a "+
		"write\n\n",
		clients, usual.connections, usual.depth)
	fmt.Fprintf(out, "%-40s %10s %10s\n", "", "one by one", "batched")
	for _, s := range planned() {
		fmt.Fprintf(out, "%-40s %10.1f %10.1f\n", s.name, single[s.name], batched[s.name])
	}
	_, err = b.reportMemory(ctx, out)
	return err
}

// micros is the CPU time of a check of each planned subject under a load.
func micros(ctx context.Context, addr string, load shape, e effort) (map[string]float64, error) {
	b, err := newBench(ctx, addr, planned(), e, load)
	if err != nil {
		return nil, err
	}
	defer b.close()
	if err := b.measure(ctx); err != nil {
		return nil, err
	}
	medians := map[string]float64{}
	for _, r := range b.runners {
		medians[r.name] = measure.Median(r.micros)
		if err := b.remove(ctx, r.subject, load.connections*load.depth); err != nil {
			return nil, err
		}
	}
	return medians, nil
}
