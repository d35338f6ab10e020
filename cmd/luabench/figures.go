package main

import (
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

// sentences are those of the documents that show results, a line each. A name within a function's is a
// subject's; of several the range is shown.
var sentences = map[string]string{
	"docs/algorithms.md": `
| [§gcra§](#gcra) |…| {{bytes "gcra"}} | {{cost "gcra"}} |
| [§token_bucket§](#token_bucket) |…| {{bytes "token_bucket"}} | {{cost "token_bucket"}} |
| §token_bucket§, §step§ |…| {{bytes "token_bucket, refill step"}} | {{cost "token_bucket, refill step"}} |
| §gcra§ or §token_bucket§, §queue§ |…| {{bytes "gcra, queue"}} | {{cost "gcra, queue"}} |
| [§leaky_bucket§](#leaky_bucket) |…| {{bytes "leaky_bucket"}} | {{cost "leaky_bucket"}} |
| §leaky_bucket§, §queue§ |…| {{bytes "leaky_bucket, queue"}} | {{cost "leaky_bucket, queue"}} |
| [§sliding_window_counter§](#sliding_window_counter) |…| ` +
		`{{bytes "sliding_window_counter, 1 sub_windows" "sliding_window_counter, 60 sub_windows"}} | ` +
		`{{cost "sliding_window_counter" "sliding_window_counter, 60 sub_windows"}} |
| [§sliding_window_log§](#sliding_window_log) |…| {{growing "sliding_window_log, %d entries"}} a unit | ` +
		`from {{cost "sliding_window_log, 10 ms"}} |
| [§fixed_window§](#fixed_window) |…| {{bytes "fixed_window" "fixed_window, first_request"}} | ` +
		`{{cost "fixed_window" "fixed_window, first_request"}} |
| [§concurrency§](#concurrency) |…| {{growing "concurrency, %d in flight"}} a request | ` +
		`{{cost "concurrency, take and give back, 20 held"}} |`,
	"docs/decisions/0002-scripts.md": `
| §gcra§, §token_bucket§, §leaky_bucket§ | {{cost "gcra" "token_bucket" "leaky_bucket"}} | ` +
		`{{cost "denied: gcra" "denied: token_bucket" "denied: leaky_bucket"}} |
| §leaky_bucket§ with a queue | {{cost "leaky_bucket, queue"}} |
| §sliding_window_counter§, 1, 10, 60 sub-windows | {{cost "sliding_window_counter"}}, ` +
		`{{cost "sliding_window_counter, 10 sub_windows"}}, {{cost "sliding_window_counter, 60 sub_windows"}} | ` +
		`{{cost "denied: sliding_window_counter"}} |
| §fixed_window§ | {{cost "fixed_window" "fixed_window, first_request"}} | ` +
		`{{cost "denied: fixed_window" "denied: fixed_window, first_request"}} |
| §sliding_window_log§ | from {{cost "sliding_window_log, 10 ms"}} | {{cost "denied: sliding_window_log"}} |
| §concurrency§ | {{cost "concurrency, take and give back, 20 held"}} with giving back | ` +
		`{{cost "denied: concurrency"}} |
| redis_rate v10's GCRA, in the same run | {{cost "redis_rate v10"}} |`,
	"docs/decisions/0017-overrides.md": `
The lookup adds {{ratio "gcra, overrides - gcra" "gcra, an override that is known - gcra"}} of §EVALSHA 'return 1'§
The lookup of an override adds {{ratio "gcra, overrides - gcra" "gcra, an override that is known - gcra"}} of
a penalty without strikes {{penalty}}`,
	"docs/decisions/0019-slots.md": `
giving it back cost Redis {{cost "concurrency, take and give back, 20 held"}} times
a refusal costs {{cost "denied: concurrency"}}. Reading`,
	"docs/benchmarks.md": `
three limits in one call cost {{printf "%.2f" (index .Ratios "gcra, 3 limits: one call / 3 calls")}} of three calls`,
}

// heading stands below the table of the page on algorithms.
const heading = `Medians of {{.Rounds}} rounds on {{.Server}}, {{.Date}}; load average {{.Load}}.
§EVALSHA 'return 1'§ took {{printf "%.1f" .Micros}} µs. A rejection costs {{cost "denied: fixed_window" ` +
	`"denied: fixed_window, first_request" "denied: sliding_window_counter" "denied: token_bucket" ` +
	`"denied: leaky_bucket" "denied: gcra"}}, with a log {{cost "denied: sliding_window_log"}}, ` +
	`with §concurrency§ {{cost "denied: concurrency"}}.
`

// pages are the documents that show results; an error if the run has not measured one of them.
func (r *results) pages() (measure.Pages, error) {
	pages := measure.Pages{}
	for name, text := range sentences {
		shown, err := r.shown(text)
		if err != nil {
			return nil, err
		}
		pages[name] = measure.Page{Sentences: strings.Split(shown, "\n")[1:]}
	}
	page := pages["docs/algorithms.md"]
	page.Begins = "<!-- \"make bench-lua PUBLISH=1\" writes this, and the numbers of the table. -->\n"
	var err error
	page.Text, err = r.shown(heading)
	pages["docs/algorithms.md"] = page
	return pages, err
}

// shown puts figures into a text, in which § stands for a backtick.
func (r *results) shown(text string) (string, error) {
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
	functions := template.FuncMap{
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
	}
	var shown strings.Builder
	err := template.Must(template.New("").Funcs(functions).Parse(strings.ReplaceAll(text, "§", "`"))).Execute(&shown, r)
	if err == nil && len(missing) > 0 {
		err = fmt.Errorf("not measured: %s", strings.Join(missing, ", "))
	}
	return shown.String(), err
}
