package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// stepsOfOne is how many steps one simulation has.
const stepsOfOne = 1000

// TestSimulate takes SIMULATE_STEPS steps, of seeds that are always the same: SIMULATE_SEED and on.
// "make simulate" sets SIMULATE_FRESH, for seeds of which half are fresh. A failure says how to have it
// again, and leaves it, shortened, in the file SIMULATE_KEEP: what it was, its configuration, its operations.
func TestSimulate(t *testing.T) {
	t.Parallel()
	steps, first := 20_000/testenv.Stride(), uint64(0)
	for name, value := range map[string]any{"SIMULATE_STEPS": &steps, "SIMULATE_SEED": &first} {
		if text := os.Getenv(name); text != "" {
			if _, err := fmt.Sscan(text, value); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
	fresh, seen := uint64(time.Now().UnixNano())%1e9, map[string]int64{}
	var v *simulation
	for n := 0; n < steps && !t.Failed(); n += stepsOfOne {
		seed, some := first+uint64(n/stepsOfOne), min(stepsOfOne, steps-n)
		if os.Getenv("SIMULATE_FRESH") != "" && n >= steps/2 {
			seed += fresh
		}
		v = newSimulation(t, seed)
		v.run(some)
		if v.failed != "" || t.Failed() {
			t.Errorf("seed %d: %s\nto have it again: make simulate SEED=%d STEPS=%d\n%s", seed, v.failed, seed, some,
				strings.Join(strings.Fields(v.config.text(0)), " "))
		}
		for outcome, n := range v.outcomes {
			seen[outcome] += n
		}
	}
	t.Logf("%d steps, fresh seeds from %d on: %v", steps, fresh, seen)
	file := os.Getenv("SIMULATE_KEEP")
	if file == "" || v.failed == "" {
		return
	}
	// Operations are taken out as long as the same check fails.
	check, ops, tries := firstWords.FindString(v.failed), v.ops, 0
	for part := len(ops) / 2; part > 0 && tries < maxTries; part /= 2 {
		for at := 0; at < len(ops) && tries < maxTries; {
			fewer := slices.Delete(slices.Clone(ops), at, min(at+part, len(ops)))
			if tries++; firstWords.FindString(replay(t, v.config, fewer).failed) == check {
				ops = fewer
			} else {
				at += part
			}
		}
	}
	config, err := json.Marshal(v.config)
	testenv.OK(t, err)
	lines := append([]string{"# " + strings.SplitN(v.failed, "\n", 2)[0], string(config)}, ops...)
	testenv.OK(t, os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o644))
}

// maxTries bounds the runs that shorten a run.
const maxTries = 400

// firstWords are the check that failed: its words before the first number.
var firstWords = regexp.MustCompile(`: [0-9]*[^0-9\n]*`)

// TestSimulateKept runs what has failed once: each file of testdata/simulate.
func TestSimulateKept(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/simulate/*")
	if err != nil || len(files) == 0 {
		t.Fatal("nothing is kept", err)
	}
	for _, file := range files {
		lines := strings.Split(strings.TrimSpace(string(testenv.Read(t, file))), "\n")
		var c simConfig
		if err := json.Unmarshal([]byte(lines[1]), &c); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for i, r := range c.Rules {
			known := draw(newRandom(0), r.Name, false)
			known.Text, known.Total, known.Rate, known.Listed = r.Text, r.Total, r.Rate, r.Listed
			c.Rules[i] = known
		}
		if v := replay(t, &c, lines[2:]); v.failed != "" {
			t.Errorf("%s: %s", file, v.failed)
		}
	}
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
		again := strings.Split(logs[1], "\n")
		for i, line := range strings.Split(logs[0], "\n") {
			if i == len(again) || line != again[i] {
				t.Fatalf("seed %d, line %d: %s\nand again: %q", seed, i, line, again[i:min(i+1, len(again))])
			}
		}
		testenv.Same(t, "the length of the log", len(logs[0]), len(logs[1]))
	}
}

// TestSimulateOps: the operations that a simulation has kept are the same simulation.
func TestSimulateOps(t *testing.T) {
	t.Parallel()
	for seed := range uint64(1 + 3/testenv.Stride()) {
		v := newSimulation(t, seed)
		v.run(600)
		again := replay(t, v.config, v.ops)
		testenv.Same(t, "failure", again.failed, v.failed)
		testenv.Same(t, "requests", len(again.all), len(v.all))
		testenv.Same(t, "outcomes", fmt.Sprint(again.outcomes), fmt.Sprint(v.outcomes))
		testenv.Same(t, "charges", fmt.Sprint(again.charged), fmt.Sprint(v.charged))
	}
}
