package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/sluiceproxy/sluice/internal/svg"
)

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
			if len(r.Results[b.id][mainLoad]) > 0 {
				b.figure = r.Results.spread(b.id, mainLoad, requestsPerSecond)
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
			pair := r.Results.spread(b.against, mainLoad, requestsPerSecond)
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
		return r.Results.fasterPair(mainLoad)
	}
	return setup
}
