package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strings"
)

// counted is the work of one request, in instructions outside the kernel.
type counted struct {
	Envoy   int64 `json:"envoy"` // of its worker
	Service int64 `json:"service,omitempty"`
	Relay   int64 `json:"relay,omitempty"` // its worker
	Redis   int64 `json:"redis,omitempty"`
}

func (c counted) sum() int64 { return c.Envoy + c.Service + c.Relay + c.Redis }

// tally are the instructions of setups, by their names.
type tally struct {
	Machine machine            `json:"machine"`
	Setups  map[string]counted `json:"setups"`
}

// countsFile has what "make count" counted when it was published.
const countsFile = "bench/results/counts.json"

// runCount counts, and shows, publishes or checks what it has counted.
func runCount(ctx context.Context, root string, o options) error {
	names := strings.Split(o.count, ",")
	all := countedSetups(names)
	if len(names) > len(all) {
		var known []string
		for _, s := range subjects {
			known = append(known, s.id)
		}
		return fmt.Errorf("-count %s: unknown setups (want all, or some of %s)", o.count, strings.Join(known, ","))
	}
	var now tally
	err := onBench(ctx, root, func(b *bench, m machine) (err error) {
		now.Machine = m
		now.Setups, err = b.countAll(ctx, all)
		return err
	})
	if err != nil {
		return err
	}
	fmt.Print(now.table())
	switch {
	case o.check:
		recorded, err := readCounts(root)
		if err != nil {
			return err
		}
		return now.against(recorded)
	case o.publish:
		return now.publish(root)
	}
	return nil
}

func readCounts(root string) (c tally, err error) {
	text, err := os.ReadFile(filepath.Join(root, countsFile))
	if err != nil {
		return c, err
	}
	return c, json.Unmarshal(text, &c)
}

// publish records the counts, and shows them. Setups that were not counted keep what was recorded of
// them.
func (c tally) publish(root string) error {
	if recorded, err := readCounts(root); err == nil {
		maps.Copy(recorded.Setups, c.Setups)
		c.Setups = recorded.Setups
	}
	text, err := json.MarshalIndent(c, "", " ")
	if err != nil {
		return err
	}
	timed, err := readRun(filepath.Join(root, publishedRun+".json"))
	if err != nil {
		return err
	}
	return timed.pages(c).Publish(root, map[string]string{countsFile: string(text) + "\n"})
}

// beyond is what a setup takes beyond no limiter; 0 if one of the two was not counted.
func (c tally) beyond(setup string) int64 {
	if c.Setups[unlimited].Envoy == 0 || c.Setups[setup].sum() == 0 {
		return 0
	}
	return c.Setups[setup].sum() - c.Setups[unlimited].sum()
}

// table shows the counts, in thousands, and what a request takes beyond one without a limiter.
func (c tally) table() string {
	var b strings.Builder
	b.WriteString("| instructions a request, in thousands | Envoy's worker | the service, or the relay | Redis | all | " +
		"beyond no limiter |\n")
	b.WriteString("|---|---:|---:|---:|---:|---:|\n")
	for _, s := range choose(func(s *setup) bool { return !s.onlyTimed }) {
		n, ok := c.Setups[s.id]
		if !ok {
			continue
		}
		beyond := ""
		if s.status == 200 {
			beyond = inThousands(c.beyond(s.id))
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", s.title, inThousands(n.Envoy), inThousands(n.Service+n.Relay),
			inThousands(n.Redis), inThousands(n.sum()), beyond)
	}
	return b.String()
}

func inThousands(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f", float64(n)/1000)
}

// tolerance is how much dearer or cheaper the usual request may be than the recorded one.
const tolerance = 0.01

// usual is the cost of the usual request, as a multiple of one without a limiter: what differs between
// two machines, such as how Envoy's libc copies, cancels out.
func (c tally) usual() float64 {
	return float64(c.Setups[sluice].Envoy) / float64(c.Setups[unlimited].Envoy)
}

// against holds the usual request to what is recorded.
func (c tally) against(recorded tally) error {
	now, was := c.usual(), recorded.usual()
	fmt.Printf("\nA usual request takes %.4f times what one without a limiter takes; %.4f is recorded.\n", now, was)
	if change := now/was - 1; math.IsNaN(change) || math.Abs(change) > tolerance {
		return fmt.Errorf("that is %+.1f %% (want at most %.0f %%; if it is meant, record it: make count PUBLISH=1)",
			change*100, tolerance*100)
	}
	return nil
}
