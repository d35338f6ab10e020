package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/sluiceproxy/sluice/algo"
)

// memoryID is an identity that no load has.
const memoryID = "user-memo"

// remembering are subjects whose keys differ in size.
func remembering() []subject {
	all := []subject{
		allowing("fixed_window", 0, algo.Limit{Algorithm: algo.FixedWindow, Units: plenty, WindowMicros: hour}),
		allowing("fixed_window, first_request", 0,
			algo.Limit{Algorithm: algo.FixedWindow, Units: plenty, WindowMicros: hour, FromFirstRequest: true}),
	}
	for _, n := range []int64{1, 10, 60} {
		all = append(all, counting(fmt.Sprintf("sliding_window_counter, %d sub_windows", n), 0, hour, n))
	}
	for _, entries := range []int64{1, 16, 128, 1000, 10_000} {
		all = append(all, logging(fmt.Sprintf("sliding_window_log, %d entries", entries), entries))
	}
	for _, a := range []algo.Algorithm{algo.TokenBucket, algo.LeakyBucket, algo.GCRA} {
		all = append(all, allowing(a.String(), 0, bucket(a, hour)))
	}
	return all
}

// reportMemory prints what one key of each takes, with its name and its expiry.
// https://redis.io/docs/latest/commands/memory-usage/
func (b *bench) reportMemory(out io.Writer) error {
	fmt.Fprintf(out, "\nMEMORY USAGE of one key, in bytes\n")
	for _, s := range remembering() {
		err := errors.Join(b.load(&s), b.prime(&s, memoryID))
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		key := s.check(memoryID)[0].command[3] // EVALSHA sha1 numkeys key
		reply, err := b.control.do("MEMORY", "USAGE", key, "SAMPLES", "0")
		if err != nil {
			return err
		}
		fmt.Fprintf(out, row, s.name, fmt.Sprint(reply.Int), "", "", "", "")
	}
	return nil
}
