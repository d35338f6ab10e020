package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// What a run that is to be published must be: long enough, and alone on its machine.
const (
	leastRounds  = 7
	leastSeconds = 4
	mostForeign  = 0.1  // cores that others use while something is measured
	mostStolen   = 0.02 // of the machine's time
)

// Bound: how often one measurement is made again because others disturbed it, and how long the
// benchmark waits for them each time.
const (
	mostRepeats = 5
	longestWait = 2 * time.Minute
)

// disturbed says what was too much for a figure that is published, and is nil if nothing was.
func disturbed(foreign, stolen float64) error {
	switch {
	case foreign > mostForeign:
		return fmt.Errorf("other processes use %.2f cores (want at most %g; find them with top, and end them or wait)",
			foreign, mostForeign)
	case stolen > mostStolen:
		return fmt.Errorf("the hypervisor takes %.1f %% of the machine's time (want at most %g %%; take another machine, "+
			"or wait)", 100*stolen, 100*mostStolen)
	}
	return nil
}

// publishable refuses what a run that is published may not be.
func (o options) publishable() error {
	switch {
	case o.rounds < leastRounds || o.seconds < leastSeconds:
		return fmt.Errorf("%d rounds of %d s are too few to publish (want ROUNDS=%d SECONDS=%d or more)",
			o.rounds, o.seconds, leastRounds, leastSeconds)
	case o.before != "":
		return errors.New("what is published is the comparison with the peers (want no BEFORE)")
	}
	return nil
}

// awaitQuiet watches the machine, again and again until it is quiet, or tells what disturbs it after a limit.
func (b *bench) awaitQuiet(ctx context.Context, length, limit time.Duration) error {
	for deadline := time.Now().Add(limit); ; {
		before, err := b.others()
		if err != nil {
			return err
		}
		begun := time.Now()
		select {
		case <-time.After(length):
		case <-ctx.Done():
			return ctx.Err()
		}
		after, err := b.others()
		if err != nil {
			return err
		}
		err = disturbed(after.since(before, time.Since(begun)))
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

// measureQuietly measures, again if others have disturbed it and that matters.
func (b *bench) measureQuietly(ctx context.Context, l load, o options) (*sample, error) {
	for repeat := 0; ; repeat++ {
		s, err := b.measure(ctx, l, o.seconds)
		if err != nil || !o.publish {
			return s, err
		}
		noise := disturbed(s.Foreign, s.Stolen)
		if noise == nil {
			return s, nil
		}
		if repeat == mostRepeats {
			return nil, fmt.Errorf("%d times in a row: %w", repeat+1, noise)
		}
		b.repeated++
		if err := b.awaitQuiet(ctx, time.Second, longestWait); err != nil {
			return nil, err
		}
	}
}
