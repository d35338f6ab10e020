package main

import (
	"fmt"
	"regexp"
)

// shown makes the text of figures of results, and notes those that are not there.
type shown struct {
	*results
	missing []string
}

// of is a result by its name.
func (s *shown) of(all map[string]float64, name string) float64 {
	value, ok := all[name]
	if !ok {
		s.missing = append(s.missing, name)
	}
	return value
}

// cost is what subjects cost, in multiples of the base: from the least to the most.
func (s *shown) cost(names ...string) string {
	low, high := s.of(s.Multiples, names[0]), 0.0
	for _, name := range names {
		low, high = min(low, s.of(s.Multiples, name)), max(high, s.of(s.Multiples, name))
	}
	return span(low, high, "%.1f")
}

// bytes are the sizes of subjects, from the least to the most.
func (s *shown) bytes(names ...string) string {
	low, high := s.of(s.Bytes, names[0]), 0.0
	for _, name := range names {
		low, high = min(low, s.of(s.Bytes, name)), max(high, s.of(s.Bytes, name))
	}
	return span(low, high, "%.0f")
}

// span is one number, or two that differ as they are written.
func span(low, high float64, format string) string {
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
	return fmt.Sprintf("%.0f, then %s a %s", one, span(few, many, "%.0f"), unit)
}

const (
	queued    = ", queue"
	runBegins = "<!-- \"make bench-lua PUBLISH=1\" writes this, and the numbers of the table. -->\n"
)

// line is a row of a table, and the two cells of it that show results.
type line struct{ name, one, other string }

// rows are those of the table of algorithms: bytes and cost.
func (s *shown) rows() []line {
	return []line{
		{"[`gcra`](#gcra)", s.bytes("gcra"), s.cost("gcra")},
		{"[`token_bucket`](#token_bucket)", s.bytes("token_bucket"), s.cost("token_bucket")},
		{"`token_bucket`, `step`", s.bytes("token_bucket, refill step"), s.cost("token_bucket, refill step")},
		{"`gcra` or `token_bucket`, `queue`", s.bytes("gcra" + queued), s.cost("gcra" + queued)},
		{"[`leaky_bucket`](#leaky_bucket)", s.bytes("leaky_bucket"), s.cost("leaky_bucket")},
		{"`leaky_bucket`, `queue`", s.bytes("leaky_bucket" + queued), s.cost("leaky_bucket" + queued)},
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
	}
}

// algorithms are the figures of the page on algorithms.
func (s *shown) algorithms() (all []figure) {
	for _, row := range s.rows() {
		head := `(?m)^(\| ` + regexp.QuoteMeta(row.name) + ` \|` + cell + cell + `)` + cell + cell
		all = append(all, figure{algorithmsPage, head, " " + row.one + " | " + row.other + " |"})
	}
	run := fmt.Sprintf("Medians of %d rounds on %s, %s; load average %s.\n`EVALSHA 'return 1'` took %.1f µs. "+
		"A rejection costs %s, with a log %s, with `concurrency` %s.\n", s.Rounds, s.Server, s.Date, s.Load, s.Micros,
		s.rejections(), s.cost("denied: sliding_window_log"), s.cost("denied: concurrency"))
	return append(
		all,
		figure{algorithmsPage, `(?s)(` + runBegins + `).*?(<!-- Until)`, run},
		figure{algorithmsPage, `(The lookup of an override adds )` + number, s.lookup()},
		figure{
			algorithmsPage, `(a penalty without\s+strikes )\d\.\d`,
			fmt.Sprintf("%.1f", s.of(s.Multiples, "gcra, penalty")-s.of(s.Multiples, "gcra")),
		},
	)
}

// rejections are what those of windows and buckets cost.
func (s *shown) rejections() string {
	return s.cost("denied: fixed_window", "denied: fixed_window, first_request", "denied: sliding_window_counter",
		"denied: token_bucket", "denied: leaky_bucket", "denied: gcra")
}

// lookup is what that of an override adds.
func (s *shown) lookup() string {
	one, other := s.of(s.Ratios, "gcra, overrides - gcra"), s.of(s.Ratios, "gcra, an override that is known - gcra")
	return span(min(one, other), max(one, other), "%.1f")
}

// scripts are the rows of the table of decision 2: admitted and rejected.
func (s *shown) scripts() []line {
	return []line{
		{
			"`gcra`, `token_bucket`, `leaky_bucket`", s.cost("gcra", "token_bucket", "leaky_bucket"),
			s.cost("denied: gcra", "denied: token_bucket", "denied: leaky_bucket"),
		},
		{"`leaky_bucket` with a queue", s.cost("leaky_bucket" + queued), ""},
		{
			"`sliding_window_counter`, 1, 10, 60 sub-windows",
			s.cost("sliding_window_counter") + ", " + s.cost("sliding_window_counter, 10 sub_windows") + ", " +
				s.cost("sliding_window_counter, 60 sub_windows"), s.cost("denied: sliding_window_counter"),
		},
		{
			"`fixed_window`", s.cost("fixed_window", "fixed_window, first_request"),
			s.cost("denied: fixed_window", "denied: fixed_window, first_request"),
		},
		{"`sliding_window_log`", "from " + s.cost("sliding_window_log, 10 ms"), s.cost("denied: sliding_window_log")},
		{
			"`concurrency`", s.cost("concurrency, take and give back, 20 held") + " with giving back",
			s.cost("denied: concurrency"),
		},
		{"redis_rate v10's GCRA, in the same run", s.cost(peerName), ""},
	}
}

// decisions are the figures of the pages of decisions, and of benchmarks.
func (s *shown) decisions() (all []figure) {
	const scripts, slots = "docs/decisions/0002-scripts.md", "docs/decisions/0019-slots.md"
	for _, row := range s.scripts() {
		if row.other != "" {
			row.other = " " + row.other
		}
		head := `(?m)^(\| ` + regexp.QuoteMeta(row.name) + ` \|)` + cell + cell
		all = append(all, figure{scripts, head, " " + row.one + " |" + row.other + " |"})
	}
	return append(
		all,
		figure{"docs/decisions/0017-overrides.md", `(The lookup adds )` + number, s.lookup()},
		figure{slots, `(giving it back cost Redis )` + number, s.cost("concurrency, take and give back, 20 held")},
		figure{slots, `(; a refusal costs )\d\.\d`, s.cost("denied: concurrency")},
		figure{
			"docs/benchmarks.md", `(three limits in one call are )` + number,
			fmt.Sprintf("%.2f", s.of(s.Ratios, "gcra, 3 limits: one call / 3 calls")),
		},
	)
}
