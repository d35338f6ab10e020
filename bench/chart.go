package main

import (
	"cmp"
	"fmt"
	"html"
	"io"
	"slices"
	"strings"
)

// Measures of the chart, in SVG units.
const (
	chartWidth  = 860
	labelWidth  = 320 // of the setups' titles
	valueWidth  = 110 // of the figures behind the bars
	barsWidth   = chartWidth - labelWidth - valueWidth
	rowHeight   = 24
	barHeight   = 14
	panelHead   = 58 // title and legend of a panel
	panelMargin = 16
)

// chartStyle has colours for light and dark pages; the background is the page's.
const chartStyle = `<style>
text { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2328; }
.title { font-size: 15px; font-weight: 600; }
.note { font-size: 12px; fill: #59636e; }
.group { font-size: 12px; font-weight: 600; fill: #59636e; } .ours { font-weight: 600; }
.sluice { fill: #0f766e; } .peer { fill: #9aa4b2; } .envoy { fill: #6b7280; } .service { fill: #d97706; } .redis { fill: #b91c5c; }
.range { stroke: #1f2328; stroke-width: 1.5; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; } .note, .group { fill: #9198a1; } .range { stroke: #e6edf3; }
  .sluice { fill: #2dd4bf; } .peer { fill: #7d8794; } .envoy { fill: #9ca3af; } .service { fill: #fbbf24; } .redis { fill: #f472b6; }
}
</style>
`

// part is a piece of a bar: its class in the style, and its length in the
// panel's unit.
type part struct {
	class string
	value float64
}

// bar is one row of a panel; a heading has a title alone.
type bar struct {
	title string
	ours  bool
	parts []part
	whole spread
	times float64 // of what it is compared with; 0 if with nothing
}

// shown is a setup in the charts, in a user's words.
type shown struct{ id, title string }

// groups are the charts' parts: what one would choose between, and how it is
// compared. What only tells how the method works is in the tables.
var groups = []struct {
	title, against string // the setup that all are compared with
	setups         []shown
}{
	{"Requests that are admitted", pairCached, []shown{
		{sluice, "Sluice"},
		{sluiceProxy, "Sluice, through redis_proxy"},
		{sluiceThree, "Sluice, three limits in a rule"},
		{leased, "Sluice, with a lease"},
		{pairCached, "Envoy's ratelimit filter and its service"},
	}},
	{"Requests that are denied", pairDenied, []shown{
		{sluiceDenied, "Sluice"},
		{pairDenied, "Envoy's ratelimit filter and its service"},
	}},
	{"Counting in one Envoy alone", "", []shown{
		{embedded, "Sluice without Redis"},
		{local, "Envoy's local_ratelimit"},
	}},
	{"Without a limiter", "", []shown{{unlimited, "Envoy"}}},
}

// panel is bars on one scale from zero.
type panel struct {
	title, note string
	legend      []string // classes that the note explains by their names
	bars        []bar
	decimals    int
}

func (p *panel) height() int { return panelHead + rowHeight*len(p.bars) + panelMargin }

// writeChart draws throughput and what a check costs.
func (r *report) writeChart(out io.Writer) error {
	panels := []*panel{r.throughputPanel(), r.costPanel()}
	var body strings.Builder
	y := 0
	for _, p := range panels {
		p.draw(&body, y)
		y += p.height()
	}
	_, err := fmt.Fprintf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" role=\"img\" "+
		"aria-label=%q>\n%s%s</svg>\n",
		chartWidth, y, panels[0].title+"; "+panels[1].title, chartStyle, body.String())
	return err
}

func (r *report) throughputPanel() *panel {
	p := &panel{
		title: "Requests per second",
		note: "one Envoy worker, 16 connections; the line is from the least to the most of the rounds; × is of the " +
			"pair's in the same group",
	}
	for _, g := range groups {
		var bars []bar
		for _, s := range g.setups {
			b := bar{
				title: s.title, ours: strings.HasPrefix(s.id, sluice),
				whole: r.Results.spread(s.id, mainLoad, requestsPerSecond),
			}
			if len(r.Results[s.id][mainLoad]) == 0 {
				continue // not measured
			}
			class := "peer"
			if b.ours {
				class = "sluice"
			}
			b.parts = []part{{class, b.whole.Median}}
			if g.against != "" && s.id != g.against {
				b.times = b.whole.Median / r.Results.spread(g.against, mainLoad, requestsPerSecond).Median
			}
			bars = append(bars, b)
		}
		slices.SortFunc(bars, func(a, b bar) int { return cmp.Compare(b.whole.Median, a.whole.Median) })
		if len(bars) > 0 {
			p.bars = append(append(p.bars, bar{title: g.title}), bars...)
		}
	}
	return p
}

func (r *report) costPanel() *panel {
	p := &panel{
		title:    "CPU time of a check that is admitted, in microseconds",
		note:     "what Envoy without a limiter uses is not in it",
		legend:   []string{"envoy", "service", "redis"},
		decimals: 1,
	}
	plain := r.Results.spread(unlimited, mainLoad, envoyCPU).Median
	for _, s := range append(slices.Clone(groups[0].setups), groups[2].setups...) {
		if len(r.Results[s.id][mainLoad]) == 0 {
			continue // not measured
		}
		p.bars = append(p.bars, bar{
			title: s.title,
			ours:  strings.HasPrefix(s.id, sluice),
			parts: []part{
				{"envoy", max(0, r.Results.spread(s.id, mainLoad, envoyCPU).Median-plain)},
				{"service", r.Results.spread(s.id, mainLoad, serviceCPU).Median},
				{"redis", r.Results.spread(s.id, mainLoad, redisCPU).Median},
			},
			whole: spreadOf(r.Results.checkCost(s.id, mainLoad)),
		})
	}
	slices.SortFunc(p.bars, func(a, b bar) int { return cmp.Compare(a.whole.Median, b.whole.Median) })
	return p
}

// draw writes the panel with its upper edge at y.
func (p *panel) draw(b *strings.Builder, y int) {
	fmt.Fprintf(b, "<text class=\"title\" x=\"0\" y=\"%d\">%s</text>\n", y+20, html.EscapeString(p.title))
	fmt.Fprintf(b, "<text class=\"note\" x=\"0\" y=\"%d\">%s</text>\n", y+40, html.EscapeString(p.note))
	for i, class := range p.legend {
		x := labelWidth + i*90
		fmt.Fprintf(b, "<rect class=%q x=\"%d\" y=\"%d\" width=\"10\" height=\"10\" rx=\"2\"/>\n", class, x, y+31)
		fmt.Fprintf(b, "<text class=\"note\" x=\"%d\" y=\"%d\">%s</text>\n", x+15, y+40, strings.ToUpper(class[:1])+class[1:])
	}
	if len(p.bars) == 0 {
		return
	}
	longest := slices.MaxFunc(p.bars, func(a, b bar) int { return cmp.Compare(a.whole.Max, b.whole.Max) })
	scale := barsWidth / longest.whole.Max
	for i, row := range p.bars {
		row.draw(b, y+panelHead+i*rowHeight, scale, p.decimals)
	}
}

func (r *bar) draw(b *strings.Builder, y int, scale float64, decimals int) {
	middle := y + barHeight/2
	if len(r.parts) == 0 {
		fmt.Fprintf(b, "<text class=\"group\" x=\"0\" y=\"%d\">%s</text>\n", middle+5, html.EscapeString(r.title))
		return
	}
	class := "setup"
	if r.ours {
		class = "ours"
	}
	fmt.Fprintf(b, "<text class=%q x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n", class, labelWidth-10, middle+5,
		html.EscapeString(r.title))
	x := float64(labelWidth)
	for _, each := range r.parts {
		width := each.value * scale
		fmt.Fprintf(b, "<rect class=%q x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\"/>\n", each.class,
			x, y, width, barHeight)
		x += width
	}
	low, high := labelWidth+max(0, r.whole.Min)*scale, labelWidth+max(0, r.whole.Max)*scale
	fmt.Fprintf(b, "<line class=\"range\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%[3]d\"/>\n", low, high, middle)
	fmt.Fprintf(b, "<text x=\"%.1f\" y=\"%d\">%s</text>\n", max(x, high)+8, middle+5, r.figure(decimals))
}

// figure is the bar's number, and how many times the other's it is.
func (r *bar) figure(decimals int) string {
	text := grouped(r.whole.Median, decimals)
	if r.times > 0 {
		text += fmt.Sprintf(", %.1f ×", r.times)
	}
	return text
}

// grouped writes a number with a comma between thousands.
func grouped(value float64, decimals int) string {
	text := fmt.Sprintf("%.*f", decimals, value)
	whole, fraction, _ := strings.Cut(text, ".")
	for i := len(whole) - 3; i > 0 && whole[i-1] != '-'; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if fraction != "" {
		return whole + "." + fraction
	}
	return whole
}
