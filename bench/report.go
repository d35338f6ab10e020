package main

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"text/template"

	"github.com/sluiceproxy/sluice/internal/measure"
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

	Setups []*setup `json:"-"`
}

// readRun reads a run's results, and works out what follows from them.
func readRun(file string) (*report, error) {
	r := &report{}
	if err := readJSON(file, r); err != nil {
		return nil, err
	}
	r.Setups = choose(func(s *setup) bool { return len(r.Results[s.ID]) > 0 })
	return r, nil
}

func readJSON(file string, into any) error {
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// The methods below are those that pages.tmpl calls.

// Spread is a quantity of a setup.
func (r *report) Spread(setup, quantity string) spread {
	return spreadOf(r.Results.of(setup, quantity))
}

// Median is its median alone.
func (r *report) Median(setup, quantity string) float64 { return r.Spread(setup, quantity).Median }

// Ratio compares the requests of two setups.
func (r *report) Ratio(setup, to string) spread {
	return compare(quotient, r.Results.of(setup, "requests"), r.Results.of(to, "requests"))
}

// Check is the CPU time of limiting, us a request: what Envoy uses beyond Envoy without a limiter, the
// service and Redis.
func (r *report) Check(setup string) spread {
	all := r.Results
	return compare(func(m []float64) float64 { return m[0] + m[1] + m[2] - m[3] }, all.of(setup, "envoy"),
		all.of(setup, "service"), all.of(setup, "redis"), all.of(unlimited, "envoy"))
}

// InEnvoy is Envoy's part of a check.
func (r *report) InEnvoy() float64 { return r.Check(sluice).Median - r.Median(sluice, "redis") }

// ProxyTakes is how many percent of Sluice's requests redis_proxy takes. Less than nothing is noise.
func (r *report) ProxyTakes() float64 {
	return max(0, 100-100*r.Median("sluice-redis-proxy", "requests")/r.Median(sluice, "requests"))
}

// FasterPair is the one of the two tunings of the ratelimit filter and its service that answers more, or
// the build that Sluice is measured beside.
func (r *report) FasterPair() string {
	switch {
	case len(r.Results[before]) > 0:
		return before
	case r.Median(pairCached, "requests") > r.Median(pair, "requests"):
		return pairCached
	}
	return pair
}

// Noise is a quantity of every sample.
func (r *report) Noise(quantity string) spread {
	var all []float64
	for setup := range r.Results {
		all = append(all, r.Results.of(setup, quantity)...)
	}
	return spreadOf(all)
}

// Good reports whether the run was as one that is published must be.
func (r *report) Good() bool {
	o := options{rounds: r.Rounds, seconds: r.Seconds}
	return o.publishable() == nil && disturbed(r.Noise("foreign").Max, r.Noise("stolen").Max/100) == nil
}

// Troubles are the setups in which not every request was decided.
func (r *report) Troubles() string {
	var b strings.Builder
	for _, s := range r.Setups {
		var undecided, wrong int64
		for _, sample := range r.Results[s.ID] {
			undecided, wrong = undecided+sample.Undecided, wrong+sample.WrongStatus
		}
		if undecided+wrong > 0 {
			fmt.Fprintf(&b, "- %s: %d checks failed or timed out, %d answers were not %d\n", s.Title, undecided, wrong, s.Status)
		}
	}
	return b.String()
}

// view is a run beside what was counted.
type view struct {
	*report

	Counts tally
}

// Timed are two cells of README's table: how often the pair's requests fit into a setup's, which is the
// quotient of the two numbers that a reader sees, and the requests.
func (v view) Timed(setup string) string {
	rate := func(setup string) float64 { return math.RoundToEven(v.Median(setup, "requests")) }
	return fmt.Sprintf("%.2f | %s", rate(setup)/rate(v.FasterPair()), svg.Grouped(rate(setup), 0))
}

// Beyond is a setup's instructions beyond no limiter.
func (v view) Beyond(setup string) string { return thousands(v.Counts.Beyond(setup)) }

// Instructions are Sluice's, as a part of the pair's.
func (v view) Instructions() float64 {
	return float64(v.Counts.Setups[sluice].Sum()) / float64(v.Counts.Setups[pair].Sum())
}

func thousands(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f", float64(n)/1000)
}

//go:embed pages.tmpl
var pagesFile string

var templates = template.Must(template.New("").Funcs(template.FuncMap{"thousands": thousands}).Parse(pagesFile))

// show fills in a part of pages.tmpl.
func show(part string, data any) string {
	var b strings.Builder
	if err := templates.ExecuteTemplate(&b, part, data); err != nil {
		panic(err) // the template is part of the program
	}
	return b.String()
}

// The files of a run that is published, in the repository.
const (
	publishedRun   = "bench/results/published"
	publishedChart = "docs/img/bench.svg"
	benchmarksPage = "docs/benchmarks.md"
	readmePage     = "README.md"
)

// pages are the documents that show a run and what was counted: tables, and figures in their text.
func (r *report) pages(counts tally) measure.Pages {
	v, pages := view{r, counts}, measure.Pages{}
	for _, name := range []string{readmePage, "docs/sizing.md", "docs/comparison.md", benchmarksPage} {
		pages[name] = measure.Page{Sentences: strings.Split(strings.TrimSpace(show(name, v)), "\n")}
	}
	page := pages[readmePage]
	page.Begins = "<!-- \"make count PUBLISH=1\" and \"make bench PUBLISH=1\" write this. -->\n"
	page.Text = show("readme", v)
	pages[readmePage] = page
	page = pages[benchmarksPage]
	page.Begins, page.Text = "<!-- The table is written by \"make count PUBLISH=1\". -->\n\n", show("counts", counts)+"\n"
	pages[benchmarksPage] = page
	return pages
}

// files are those of a run: two whose names begin alike, and the chart.
func (r *report) files(name, chart string) (map[string]string, error) {
	text, err := json.MarshalIndent(r, "", " ")
	return map[string]string{name + ".md": show("run", r), name + ".json": string(text) + "\n", chart: r.chart()}, err
}

// publish makes a run the one that the documents show, beside the instructions that are recorded.
func (r *report) publish(root string) error {
	record, err := r.files(publishedRun, publishedChart)
	if err != nil {
		return err
	}
	counts, err := readCounts(root)
	if err != nil {
		return err
	}
	return r.pages(counts).Publish(root, record)
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
		{"sluice-redis-proxy", "Sluice, through redis_proxy"},
		{"sluice-3-limits", "Sluice, three limits in a rule"},
		{leased, "Sluice, with a lease"},
		{pair, "Envoy's ratelimit filter and its service"},
	}},
	{"Requests that are denied", "ratelimit-denied", [][2]string{
		{"sluice-denied", "Sluice"},
		{"ratelimit-denied", "Envoy's ratelimit filter and its service"},
	}},
	{"Counting in one Envoy alone", "", [][2]string{
		{"sluice-embedded", "Sluice without Redis"},
		{"local-ratelimit", "Envoy's local_ratelimit"},
	}},
	{"Without a limiter", "", [][2]string{{unlimited, "Envoy"}}},
}

// chart draws throughput.
func (r *report) chart() string {
	type bar struct { // a heading has a title alone
		setup, title, against string
		figure                spread
	}
	var bars []bar
	most := 0.0
	faster := func(setup string) string { // of the pair's two tunings
		if setup == pair {
			return r.FasterPair()
		}
		return setup
	}
	for _, g := range groups {
		var group []bar
		for _, s := range g.setups {
			b := bar{faster(s[0]), s[1], faster(g.against), r.Spread(faster(s[0]), "requests")}
			if len(r.Results[b.setup]) > 0 {
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
		if b.setup == "" {
			c.Text("group", edge, middle+5, "%s", b.title)
			continue
		}
		text, class, bar := svg.Grouped(b.figure.Median, 0), "end", "peer"
		if strings.HasPrefix(b.setup, sluice) {
			class, bar = "strong end", sluice
		}
		if b.against != "" && b.against != b.setup {
			text += fmt.Sprintf(", %.1f ×", b.figure.Median/r.Median(b.against, "requests"))
		}
		c.Text(class, barsLeft-10, middle+5, "%s", b.title)
		c.Rect(bar, barsLeft, top, plot.X(b.figure.Median)-barsLeft, barHeight)
		c.Path("range", "M%.1f %.1fH%.1f", plot.X(b.figure.Min), middle, plot.X(b.figure.Max))
		c.Text("figure", plot.X(b.figure.Max)+8, middle+5, "%s", text)
	}
	return string(c.SVG())
}
