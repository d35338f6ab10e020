package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// recorded is what was published last.
const recorded = "cmd/luabench/published.json"

// results are what a run has found, rounded as it is recorded.
type results struct {
	Server    string             `json:"server"`
	Date      string             `json:"date"`
	Load      string             `json:"load"` // averages, before and after
	Rounds    int                `json:"rounds"`
	Micros    float64            `json:"micros"`    // of the base
	Multiples map[string]float64 `json:"multiples"` // of the base, by subject
	Ratios    map[string]float64 `json:"ratios"`    // by comparison
	Bytes     map[string]float64 `json:"bytes"`     // of an identity
}

// results are those of the bench, which has measured.
func (b *bench) results(ctx context.Context, before string, sizes map[string]float64) *results {
	r := &results{
		Server: b.version(ctx), Date: time.Now().UTC().Format(time.DateOnly),
		Load: before + " before, " + load() + " after", Rounds: b.rounds,
		Multiples: map[string]float64{}, Ratios: map[string]float64{}, Bytes: map[string]float64{},
	}
	for name, size := range sizes {
		r.Bytes[name] = math.Round(size)
	}
	if len(b.runners) == 0 {
		return r
	}
	r.Micros = hundredths(median(b.base.micros))
	for _, runner := range b.runners {
		r.Multiples[runner.name] = hundredths(median(runner.multiple))
	}
	for _, c := range comparisons {
		r.Ratios[c.name] = hundredths(median(b.ratios(c)))
	}
	return r
}

func hundredths(x float64) float64 { return math.Round(x*100) / 100 }

// load is the machine's load average of the last minute.
func load() string {
	text, _ := os.ReadFile("/proc/loadavg")
	one, _, _ := strings.Cut(string(text), " ")
	return one
}

// readResults reads what was recorded.
func readResults(path string) (*results, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := new(results)
	return r, json.Unmarshal(text, r)
}

// publish records the results, and shows them in the documents below root.
func (r *results) publish(root string) error {
	figures, err := r.figures()
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	changed := map[string]string{recorded: string(text) + "\n"}
	for _, f := range figures {
		if _, read := changed[f.page]; !read {
			text, err := os.ReadFile(filepath.Join(root, f.page))
			if err != nil {
				return err
			}
			changed[f.page] = string(text)
		}
		if changed[f.page], err = f.show(changed[f.page]); err != nil {
			return err
		}
	}
	for page, text := range changed {
		if err := os.WriteFile(filepath.Join(root, page), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// figure is a place of a page that shows results: what the parentheses of the pattern leave out.
type figure struct{ page, pattern, text string }

// show is the page's text with the figure, which has one place there.
func (f figure) show(text string) (string, error) {
	pattern := regexp.MustCompile(f.pattern)
	if places := len(pattern.FindAllString(text, -1)); places != 1 {
		return "", fmt.Errorf("%s has %d places for %q, want one: %s", f.page, places, f.text, f.pattern)
	}
	return pattern.ReplaceAllString(text, "${1}"+f.text+"${2}"), nil
}

const (
	algorithmsPage = "docs/algorithms.md"
	number         = `[0-9.]+(?: to [0-9.]+)?`
	cell           = `[^|\n]*\|`
)

// figures are all places that show results; an error if the run has not measured one of them.
func (r *results) figures() ([]figure, error) {
	s := &shown{results: r}
	all := append(s.algorithms(), s.decisions()...)
	if len(s.missing) > 0 {
		return nil, fmt.Errorf("not measured: %s", strings.Join(s.missing, ", "))
	}
	return all, nil
}
