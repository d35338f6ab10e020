package main

import (
	"fmt"
	"strings"

	"github.com/sluiceproxy/sluice/internal/measure"
)

// shown makes the text of figures of results, and notes those that are not there.
type shown struct {
	*results
	missing []string
}

// pages are the documents that show results; an error if the run has not measured one of them.
func (r *results) pages() (measure.Pages, error) {
	s := &shown{results: r}
	pages := measure.Pages{
		"docs/algorithms.md":             s.algorithms(),
		"docs/decisions/0002-scripts.md": {Sentences: s.scripts()},
		"docs/decisions/0017-overrides.md": {Sentences: []string{
			"The lookup adds " + s.lookup() + " of `EVALSHA 'return 1'`",
		}},
		"docs/decisions/0019-slots.md": {Sentences: []string{
			"giving it back cost Redis " + s.cost("concurrency, take and give back, 20 held") + " times",
			"a refusal costs " + s.cost("denied: concurrency") + ". Reading",
		}},
		"docs/benchmarks.md": {Sentences: []string{fmt.Sprintf(
			"three limits in one call are %.2f of three calls", s.of(s.Ratios, "gcra, 3 limits: one call / 3 calls"),
		)}},
	}
	if len(s.missing) > 0 {
		return nil, fmt.Errorf("not measured: %s", strings.Join(s.missing, ", "))
	}
	return pages, nil
}

// of is a result by its name.
func (s *shown) of(all map[string]float64, name string) float64 {
	value, ok := all[name]
	if !ok {
		s.missing = append(s.missing, name)
	}
	return value
}

// cost is the range of what subjects cost, in multiples of the base.
func (s *shown) cost(names ...string) string { return s.span(s.Multiples, "%.1f", names) }

// bytes are the sizes of subjects, from the least to the most.
func (s *shown) bytes(names ...string) string { return s.span(s.Bytes, "%.0f", names) }

// span is one number, or two that differ as they are written: the least and the most.
func (s *shown) span(all map[string]float64, format string, names []string) string {
	low, high := s.of(all, names[0]), 0.0
	for _, name := range names {
		low, high = min(low, s.of(all, name)), max(high, s.of(all, name))
	}
	from, to := fmt.Sprintf(format, low), fmt.Sprintf(format, high)
	if from == to {
		return from
	}
	return from + " to " + to
}

// growing is the size with one entry, and how much each more takes: few are packed, many are not.
func (s *shown) growing(name, unit string) string {
	one := s.of(s.Bytes, fmt.Sprintf(name, 1))
	few := (s.of(s.Bytes, fmt.Sprintf(name, 128)) - one) / 127
	many := s.of(s.Bytes, fmt.Sprintf(name, 1000)) / 1000
	return fmt.Sprintf("%.0f, then %.0f to %.0f a %s", one, few, many, unit)
}

// lookup is the range of what looking up an override adds.
func (s *shown) lookup() string {
	return s.span(s.Ratios, "%.1f", []string{"gcra, overrides - gcra", "gcra, an override that is known - gcra"})
}

// algorithms are the figures of the page on algorithms.
func (s *shown) algorithms() measure.Page {
	page := measure.Page{
		Begins: "<!-- \"make bench-lua PUBLISH=1\" writes this, and the numbers of the table. -->\n",
		Text: fmt.Sprintf("Medians of %d rounds on %s, %s; load average %s.\n`EVALSHA 'return 1'` took %.1f µs. "+
			"A rejection costs %s, with a log %s, with `concurrency` %s.\n", s.Rounds, s.Server, s.Date, s.Load, s.Micros,
			s.cost("denied: fixed_window", "denied: fixed_window, first_request", "denied: sliding_window_counter",
				"denied: token_bucket", "denied: leaky_bucket", "denied: gcra"),
			s.cost("denied: sliding_window_log"), s.cost("denied: concurrency")),
		Sentences: []string{
			"The lookup of an override adds " + s.lookup() + " of",
			fmt.Sprintf("a penalty without strikes %.1f", s.of(s.Multiples, "gcra, penalty")-s.of(s.Multiples, "gcra")),
		},
	}
	for _, row := range []struct{ name, bytes, cost string }{
		{"[`gcra`](#gcra)", s.bytes("gcra"), s.cost("gcra")},
		{"[`token_bucket`](#token_bucket)", s.bytes("token_bucket"), s.cost("token_bucket")},
		{"`token_bucket`, `step`", s.bytes("token_bucket, refill step"), s.cost("token_bucket, refill step")},
		{"`gcra` or `token_bucket`, `queue`", s.bytes("gcra, queue"), s.cost("gcra, queue")},
		{"[`leaky_bucket`](#leaky_bucket)", s.bytes("leaky_bucket"), s.cost("leaky_bucket")},
		{"`leaky_bucket`, `queue`", s.bytes("leaky_bucket, queue"), s.cost("leaky_bucket, queue")},
		{
			"[`sliding_window_counter`](#sliding_window_counter)",
			s.bytes("sliding_window_counter, 1 sub_windows", "sliding_window_counter, 60 sub_windows"),
			s.cost("sliding_window_counter", "sliding_window_counter, 60 sub_windows"),
		},
		{
			"[`sliding_window_log`](#sliding_window_log)", s.growing("sliding_window_log, %d entries", "unit"),
			"from " + s.cost("sliding_window_log, 10 ms"),
		},
		{
			"[`fixed_window`](#fixed_window)", s.bytes("fixed_window", "fixed_window, first_request"),
			s.cost("fixed_window", "fixed_window, first_request"),
		},
		{
			"[`concurrency`](#concurrency)", s.growing("concurrency, %d in flight", "request"),
			s.cost("concurrency, take and give back, 20 held"),
		},
	} {
		page.Sentences = append(page.Sentences, fmt.Sprintf("| %s |…| %s | %s |", row.name, row.bytes, row.cost))
	}
	return page
}

// scripts are the rows of the table of decision 2: admitted and rejected.
func (s *shown) scripts() []string {
	return []string{
		"| `gcra`, `token_bucket`, `leaky_bucket` | " + s.cost("gcra", "token_bucket", "leaky_bucket") + " | " +
			s.cost("denied: gcra", "denied: token_bucket", "denied: leaky_bucket") + " |",
		"| `leaky_bucket` with a queue | " + s.cost("leaky_bucket, queue") + " |",
		"| `sliding_window_counter`, 1, 10, 60 sub-windows | " + s.cost("sliding_window_counter") + ", " +
			s.cost("sliding_window_counter, 10 sub_windows") + ", " + s.cost("sliding_window_counter, 60 sub_windows") +
			" | " + s.cost("denied: sliding_window_counter") + " |",
		"| `fixed_window` | " + s.cost("fixed_window", "fixed_window, first_request") + " | " +
			s.cost("denied: fixed_window", "denied: fixed_window, first_request") + " |",
		"| `sliding_window_log` | from " + s.cost("sliding_window_log, 10 ms") + " | " +
			s.cost("denied: sliding_window_log") + " |",
		"| `concurrency` | " + s.cost("concurrency, take and give back, 20 held") + " with giving back | " +
			s.cost("denied: concurrency") + " |",
		"| redis_rate v10's GCRA, in the same run | " + s.cost(peerName) + " |",
	}
}
