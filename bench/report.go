package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/sluiceproxy/sluice/internal/svg"
)

// report is the result of a benchmark.
type report struct {
	Machine machine `json:"machine"`
	Command string  `json:"command"`
	Rounds  int     `json:"rounds"`
	Seconds int     `json:"seconds"` // of one measurement
	Results results `json:"results"` // by setup and load
	// Repeated is how many measurements others disturbed, of a run that was to be published.
	Repeated int `json:"repeated,omitempty"`

	setups []*setup
}

// columns are those of the table.
var columns = []struct {
	head string
	cell func(r *report, s *setup) string
}{
	{"requests/s", func(r *report, s *setup) string { return r.Results.spread(s.id, requestsPerSecond).text(0) }},
	{"÷ no limiter", func(r *report, s *setup) string {
		return r.Results.ratio(s.id, unlimited, requestsPerSecond).text(2)
	}},
	{"÷ the pair", func(r *report, s *setup) string {
		return r.Results.ratio(s.id, r.Results.fasterPair(), requestsPerSecond).text(2)
	}},
	{"CPU, µs: Envoy", median(1, envoyCPU)},
	{"service", median(1, serviceCPU)},
	{"Redis", median(1, redisCPU)},
	{"per check", func(r *report, s *setup) string {
		if s.id == unlimited || s.status != 200 {
			return "-"
		}
		return r.Results.checkCost(s.id).text(1)
	}},
	{"requests/CPU second", median(0, requestsPerCPUSecond)},
	{"Redis commands", median(4, redisCommands)},
	{"MB: Envoy", median(0, func(s *sample) float64 { return s.MemoryMB.Envoy })},
	{"service", median(0, func(s *sample) float64 { return s.MemoryMB.Service })},
	{"Redis", median(0, func(s *sample) float64 { return s.MemoryMB.Redis })},
}

// median is a cell with the median alone.
func median(decimals int, q quantity) func(*report, *setup) string {
	return func(r *report, s *setup) string {
		text, _, _ := strings.Cut(r.Results.spread(s.id, q).text(decimals), " ")
		return text
	}
}

// tables are what a run has measured, and what on.
func (r *report) tables() string {
	var b strings.Builder
	m := r.Machine
	fmt.Fprintf(&b, "`%s`, %s, commit %s: %d cores of %s, Linux %s, Envoy %s with one worker, Redis %s, "+
		"envoyproxy/ratelimit %s.\n",
		r.Command, m.Date, m.Commit, m.Cores, m.CPU, m.Kernel, m.Envoy, m.Redis, m.Peer)
	fmt.Fprintf(&b, "Load average before: %s; other processes used %s cores meanwhile, the hypervisor took %s %%. ",
		m.LoadAverage, spreadOf(r.each(foreign)).text(2), spreadOf(r.each(stolenPercent)).text(1))
	if r.Repeated > 0 {
		fmt.Fprintf(&b, "%d measurements were disturbed, and made again. ", r.Repeated)
	}
	fmt.Fprintf(&b, "Medians of %d rounds of %d s, in parentheses the least and the most. A ratio or a difference is "+
		"that of the medians, in parentheses the interval that holds it with 95 %% probability (bootstrap over the rounds)."+
		"\n\n|",
		r.Rounds, r.Seconds)
	for _, c := range columns {
		b.WriteString(" | " + c.head)
	}
	b.WriteString(" |\n|---|" + strings.Repeat("---:|", len(columns)) + "\n")
	var troubles []string
	for _, s := range r.setups {
		b.WriteString("| " + s.title)
		for _, c := range columns {
			b.WriteString(" | " + c.cell(r, s))
		}
		b.WriteString(" |\n")
		var undecided, wrong int64
		for _, sample := range r.Results[s.id] {
			undecided, wrong = undecided+sample.Undecided, wrong+sample.WrongStatus
		}
		if undecided+wrong > 0 {
			troubles = append(troubles, fmt.Sprintf("- %s: %d checks failed or timed out, %d answers were not %d\n",
				s.title, undecided, wrong, s.status))
		}
	}
	fmt.Fprintf(&b, "\nSixteen connections ask, each again when it is answered. Requests for each second of CPU time "+
		"count the CPU of Envoy, the service and Redis. Per check: Envoy's CPU beyond that without a limiter, the service's "+
		"and Redis's; of a denied request it means nothing, as that never reaches the upstream. The pair is Envoy's "+
		"ratelimit filter and its service, here %q, the faster tuning.\n", r.Results.fasterPair())
	if len(troubles) > 0 {
		b.WriteString("\nNot every request was decided:\n\n" + strings.Join(troubles, ""))
	}
	return b.String()
}

// each is a quantity of every sample.
func (r *report) each(q quantity) (all []float64) {
	for setup := range r.Results {
		all = append(all, r.Results.of(setup, q)...)
	}
	return all
}

// Measures of the chart, in SVG units.
const (
	chartWidth = 892
	rowHeight  = 24
	barHeight  = 14
	chartHead  = 74
	edge       = 16
	barsLeft   = 336
	barsWidth  = 430
)

// groups are the chart's parts: what one would choose between, in a user's words. What only tells how the
// method works is in the table.
var groups = []struct {
	title, against string // the setup that all are compared with
	setups         [][2]string
}{
	{"Requests that are admitted", pair, [][2]string{
		{sluice, "Sluice"},
		{sluiceProxy, "Sluice, through redis_proxy"},
		{sluiceThree, "Sluice, three limits in a rule"},
		{leased, "Sluice, with a lease"},
		{pair, "Envoy's ratelimit filter and its service"},
	}},
	{"Requests that are denied", pairDenied, [][2]string{
		{sluiceDenied, "Sluice"},
		{pairDenied, "Envoy's ratelimit filter and its service"},
	}},
	{"Counting in one Envoy alone", "", [][2]string{
		{embedded, "Sluice without Redis"},
		{local, "Envoy's local_ratelimit"},
	}},
	{"Without a limiter", "", [][2]string{{unlimited, "Envoy"}}},
}

// bar is one row; a heading has a title alone.
type bar struct {
	id, title string
	figure    spread
	against   string // the setup that it is compared with
}

// chart draws throughput.
func (r *report) chart() string {
	var bars []bar
	most := 0.0
	for _, g := range groups {
		var group []bar
		for _, s := range g.setups {
			b := bar{r.inChart(s[0]), s[1], spread{}, r.inChart(g.against)}
			if len(r.Results[b.id]) > 0 {
				b.figure = r.Results.spread(b.id, requestsPerSecond)
				most = max(most, b.figure.Max)
				group = append(group, b)
			}
		}
		slices.SortFunc(group, func(a, b bar) int { return cmp.Compare(b.figure.Median, a.figure.Median) })
		if len(group) > 0 {
			bars = append(append(bars, bar{title: g.title}), group...)
		}
	}
	const title = "Requests per second"
	c := svg.New(chartWidth, chartHead+rowHeight*len(bars)+edge, title)
	c.Text("title", edge, 36, title)
	c.Text("note", edge, 56, "one Envoy worker, 16 connections; the line is from the least to the most of the rounds; "+
		"× is of the pair's in the same group")
	plot := svg.Plot{Left: barsLeft, Right: barsLeft + barsWidth, To: most}
	for i, b := range bars {
		top := float64(chartHead + i*rowHeight)
		middle := top + barHeight/2
		if b.id == "" {
			c.Text("group", edge, middle+5, "%s", b.title)
			continue
		}
		text, class, bar := svg.Grouped(b.figure.Median, 0), "end", "peer"
		if strings.HasPrefix(b.id, sluice) {
			class, bar = "strong end", sluice
		}
		if b.against != "" && b.against != b.id {
			pair := r.Results.spread(b.against, requestsPerSecond)
			text += fmt.Sprintf(", %.1f ×", b.figure.Median/pair.Median)
		}
		c.Text(class, barsLeft-10, middle+5, "%s", b.title)
		c.Rect(bar, barsLeft, top, plot.X(b.figure.Median)-barsLeft, barHeight)
		c.Path("range", "M%.1f %.1fH%.1f", plot.X(b.figure.Min), middle, plot.X(b.figure.Max))
		c.Text("figure", plot.X(b.figure.Max)+8, middle+5, "%s", text)
	}
	return string(c.SVG())
}

// inChart is the setup of a bar: of the pair's two tunings the faster.
func (r *report) inChart(setup string) string {
	if setup == pair {
		return r.Results.fasterPair()
	}
	return setup
}
