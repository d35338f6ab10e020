package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"text/template"

	"github.com/sluiceproxy/sluice/internal/measure"
)

// recorded has the results published last.
const recorded = "cmd/luabench/published.json"

// results are the figures of a run, rounded as they are recorded.
type results struct {
	Server    string             `json:"server"`
	Date      string             `json:"date"`
	Load      string             `json:"load"` // averages, before and after
	Rounds    int                `json:"rounds"`
	Micros    float64            `json:"micros"`    // of the base
	Multiples map[string]float64 `json:"multiples"` // of the base, by subject
	Ratios    map[string]float64 `json:"ratios"`    // of subjects, or what one costs more than the other
	Bytes     map[string]float64 `json:"bytes"`     // of an identity
}

// publish records the results, and shows them in the documents below root.
func (r *results) publish(root string) error {
	pages, err := r.pages()
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return pages.Publish(root, map[string]string{recorded: string(text) + "\n"})
}

//go:embed figures.tmpl
var figuresFile string

// pages are the documents that show results; an error if the run has not measured one of them.
func (r *results) pages() (measure.Pages, error) {
	var missing []string
	of := func(all map[string]float64, name string) float64 {
		value, ok := all[name]
		if !ok {
			missing = append(missing, name)
		}
		return value
	}
	// span is one number, or two that differ as they are written: the least and the most.
	span := func(all map[string]float64, format string) func(names ...string) string {
		return func(names ...string) string {
			var values []float64
			for _, name := range names {
				values = append(values, of(all, name))
			}
			from, to := fmt.Sprintf(format, slices.Min(values)), fmt.Sprintf(format, slices.Max(values))
			if from == to {
				return from
			}
			return from + " to " + to
		}
	}
	templates := template.Must(template.New("").Funcs(template.FuncMap{
		"cost": span(r.Multiples, "%.1f"), "bytes": span(r.Bytes, "%.0f"), "ratio": span(r.Ratios, "%.1f"),
		"penalty": func() string {
			return fmt.Sprintf("%.1f", of(r.Multiples, "gcra, penalty")-of(r.Multiples, "gcra"))
		},
		// The size with one entry, and how much each more takes: few are packed, many are not.
		"growing": func(name string) string {
			one := of(r.Bytes, fmt.Sprintf(name, 1))
			few := (of(r.Bytes, fmt.Sprintf(name, 128)) - one) / 127
			return fmt.Sprintf("%.0f, then %.0f to %.0f", one, few, of(r.Bytes, fmt.Sprintf(name, 1000))/1000)
		},
	}).Parse(figuresFile))
	pages, below := measure.Pages{}, ""
	for _, t := range templates.Templates() {
		var shown strings.Builder
		if err := t.Execute(&shown, r); err != nil {
			return nil, err
		}
		switch {
		case strings.HasPrefix(t.Name(), "docs/"):
			pages[t.Name()] = measure.Page{Sentences: strings.Split(strings.TrimSpace(shown.String()), "\n")}
		case t.Name() != "":
			below = shown.String()
		}
	}
	page := pages["docs/algorithms.md"]
	page.Begins = "<!-- \"make bench-lua PUBLISH=1\" writes this, and the numbers of the table. -->\n"
	page.Text = below
	pages["docs/algorithms.md"] = page
	if len(missing) > 0 {
		return nil, fmt.Errorf("not measured: %s", strings.Join(missing, ", "))
	}
	return pages, nil
}
