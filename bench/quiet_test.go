package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestDisturbed: what is published is refused with what disturbs it.
func TestDisturbed(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		foreign, stolen float64
		want            string
	}{
		{0.1, 0.02, ""},
		{-0.3, 0, ""},
		{0.11, 0, "other processes use 0.11 cores (want at most 0.1"},
		{0, 0.031, "the hypervisor takes 3.1 % of the machine's time (want at most 2 %"},
	} {
		got := ""
		if err := disturbed(test.foreign, test.stolen); err != nil {
			got = err.Error()
		}
		testenv.Same(t, test.want, strings.HasPrefix(got, test.want) && (got == "") == (test.want == ""), true)
	}
}

// TestPublishable: too few rounds, too short ones, and other comparisons are not published.
func TestPublishable(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		o    options
		want string
	}{
		{options{rounds: 7, seconds: 4}, ""},
		{options{rounds: 6, seconds: 4}, "6 rounds of 4 s are too few to publish (want ROUNDS=7 SECONDS=4 or more)"},
		{options{rounds: 9, seconds: 3}, "9 rounds of 3 s are too few to publish (want ROUNDS=7 SECONDS=4 or more)"},
		{
			options{rounds: 7, seconds: 4, before: "other.wasm"},
			"what is published is the comparison with the peers (want no BEFORE)",
		},
	} {
		got := ""
		if err := test.o.publishable(); err != nil {
			got = err.Error()
		}
		testenv.Same(t, "the refusal", got, test.want)
	}
	// The command refuses before it starts anything.
	err := run(t.Context(), "..", options{rounds: 1, seconds: 1, publish: true})
	testenv.Same(t, "the command's refusal", err != nil && strings.Contains(err.Error(), "too few to publish"), true)
}

// TestAwaitQuiet sees a process that is none of the benchmark's.
func TestAwaitQuiet(t *testing.T) {
	t.Parallel()
	b, other := &bench{}, &bench{dir: t.TempDir()}
	_, err := other.start(t.Context(), "shell", nil, func(context.Context) error { return nil }, "sh", "-c",
		"while :; do :; done")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.stop(0) })
	testenv.Wait(t, time.Minute, func() error {
		if b.awaitQuiet(t.Context(), time.Second, 0) == nil {
			return errors.New("the other process is not noticed")
		}
		return nil
	})
}

// TestOthers: time that was stolen is a part of the machine's, foreign CPU is in cores.
func TestOthers(t *testing.T) {
	t.Parallel()
	before, after := others{foreign: 1, stolen: 1}, others{foreign: 3, stolen: 1}
	cores, stolen := after.since(before, 4*time.Second)
	testenv.Same(t, "cores", cores, 0.5)
	testenv.Same(t, "stolen", stolen, 0)
}
