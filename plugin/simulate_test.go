package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// stepsOfOne is how many steps one simulation has.
const stepsOfOne = 1000

// number reads an environment variable; otherwise it is missing.
func number(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// TestSimulate takes SIMULATE_STEPS steps, of seeds that are always the same: SIMULATE_SEED and on.
// "make simulate" sets SIMULATE_FRESH, for seeds of which half are fresh.
func TestSimulate(t *testing.T) {
	t.Parallel()
	steps, first := int(number(t, "SIMULATE_STEPS", uint64(20_000/testenv.Stride()))), number(t, "SIMULATE_SEED", 0)
	fresh, seen := uint64(time.Now().UnixNano())%1e9, map[string]int64{}
	for n := 0; n < steps; n += stepsOfOne {
		seed := first + uint64(n/stepsOfOne)
		if os.Getenv("SIMULATE_FRESH") != "" && n >= steps/2 {
			seed += fresh
		}
		v := simulate(t, seed, min(stepsOfOne, steps-n))
		if t.Failed() {
			return
		}
		for outcome, n := range v.outcomes {
			seen[outcome] += n
		}
	}
	t.Logf("%d steps, fresh seeds from %d on: %v", steps, fresh, seen)
}

// TestSimulateKept runs what has failed once: each file of testdata/simulate.
func TestSimulateKept(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/simulate/*")
	if err != nil || len(files) == 0 {
		t.Fatal("nothing is kept", err)
	}
	for _, file := range files {
		setting, ops := readKept(t, file)
		if v := replay(t, setting, ops); v.failed != "" {
			t.Errorf("%s: %s", file, v.failed)
		}
	}
}

// simulate runs one simulation, and says how to have it again if it fails.
func simulate(t *testing.T, seed uint64, steps int) *simulation {
	t.Helper()
	v := newSimulation(t, seed)
	v.run(steps)
	if file := os.Getenv("SIMULATE_KEEP"); v.failed != "" && file != "" {
		v.keep(file)
	}
	if v.failed != "" || t.Failed() {
		t.Errorf("seed %d: %s\nto have it again: make simulate SEED=%d STEPS=%d\n%s", seed, v.failed, seed, steps,
			strings.Join(strings.Fields(v.config.text(0)), " "))
	}
	return v
}

// TestSimulateReplays: the same seed is the same simulation, to the byte.
func TestSimulateReplays(t *testing.T) {
	t.Parallel()
	for seed := range uint64(1 + 5/testenv.Stride()) {
		var logs [2]string
		for i := range logs {
			v := newSimulation(t, seed)
			v.log.kept = true
			v.run(600)
			logs[i] = v.log.String()
		}
		if logs[0] != logs[1] {
			t.Errorf("seed %d: %s", seed, firstDifference(logs[0], logs[1]))
		}
	}
}

// TestSimulateOps: the operations that a simulation has kept are the same simulation.
func TestSimulateOps(t *testing.T) {
	t.Parallel()
	for seed := range uint64(1 + 3/testenv.Stride()) {
		v := newSimulation(t, seed)
		v.run(600)
		again := replay(t, v.setting, v.ops)
		testenv.Same(t, "failure", again.failed, v.failed)
		testenv.Same(t, "requests", len(again.all), len(v.all))
		testenv.Same(t, "outcomes", fmt.Sprint(again.outcomes), fmt.Sprint(v.outcomes))
		testenv.Same(t, "charges", fmt.Sprint(again.charged), fmt.Sprint(v.charged))
	}
}

// firstDifference is where two logs part.
func firstDifference(a, b string) string {
	one, other := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(one), len(other)) {
		if one[i] != other[i] {
			return "line " + strconv.Itoa(i) + ":\n" + one[i] + "\n" + other[i]
		}
	}
	return "one is longer"
}
