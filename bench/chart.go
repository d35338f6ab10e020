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
	valueWidth  = 90  // of the figures behind the bars
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
.sluice { fill: #0f766e; } .peer { fill: #9aa4b2; } .envoy { fill: #0f766e; } .service { fill: #d97706; } .redis { fill: #b91c5c; }
.range { stroke: #1f2328; stroke-width: 1.5; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; } .note { fill: #9198a1; } .range { stroke: #e6edf3; }
  .sluice { fill: #2dd4bf; } .peer { fill: #7d8794; } .envoy { fill: #2dd4bf; } .service { fill: #fbbf24; } .redis { fill: #f472b6; }
}
</style>
`

// part is a piece of a bar: its class in the style, and its length in the
// panel's unit.
type part struct {
	class string
	value float64
}

// bar is one row of a panel.
type bar struct {
	title string
	parts []part
	whole spread
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
	_, err := fmt.Fprintf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" role=\"img\" aria-label=%q>\n%s%s</svg>\n",
		chartWidth, y, panels[0].title+"; "+panels[1].title, chartStyle, body.String())
	return err
}

func (r *report) throughputPanel() *panel {
	p := &panel{
		title: "Requests per second",
		note:  "one Envoy worker, 16 connections; the line is from the least to the most of the rounds",
	}
	for _, s := range r.setups {
		class := "peer"
		if strings.HasPrefix(s.id, sluice) {
			class = "sluice"
		}
		whole := r.Results.spread(s.id, mainLoad, requestsPerSecond)
		p.bars = append(p.bars, bar{title: s.title, parts: []part{{class, whole.Median}}, whole: whole})
	}
	return p
}

func (r *report) costPanel() *panel {
	p := &panel{
		title:    "CPU time of a check, in microseconds",
		note:     "beyond Envoy without a limiter, at 16 connections",
		legend:   []string{"envoy", "service", "redis"},
		decimals: 1,
	}
	plain := r.Results.spread(unlimited, mainLoad, envoyCPU).Median
	for _, s := range r.setups {
		if s.id == unlimited || s.status != 200 {
			continue
		}
		p.bars = append(p.bars, bar{
			title: s.title,
			parts: []part{
				{"envoy", max(0, r.Results.spread(s.id, mainLoad, envoyCPU).Median-plain)},
				{"service", r.Results.spread(s.id, mainLoad, serviceCPU).Median},
				{"redis", r.Results.spread(s.id, mainLoad, redisCPU).Median},
			},
			whole: spreadOf(r.Results.checkCost(s.id, mainLoad)),
		})
	}
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
	longest := slices.MaxFunc(p.bars, func(a, b bar) int { return cmp.Compare(a.whole.Max, b.whole.Max) })
	scale := barsWidth / longest.whole.Max
	for i, row := range p.bars {
		row.draw(b, y+panelHead+i*rowHeight, scale, p.decimals)
	}
}

func (r *bar) draw(b *strings.Builder, y int, scale float64, decimals int) {
	middle := y + barHeight/2
	fmt.Fprintf(b, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n", labelWidth-10, middle+5, html.EscapeString(r.title))
	x := float64(labelWidth)
	for _, each := range r.parts {
		width := each.value * scale
		fmt.Fprintf(b, "<rect class=%q x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\"/>\n", each.class, x, y, width, barHeight)
		x += width
	}
	low, high := labelWidth+max(0, r.whole.Min)*scale, labelWidth+max(0, r.whole.Max)*scale
	fmt.Fprintf(b, "<line class=\"range\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%[3]d\"/>\n", low, high, middle)
	fmt.Fprintf(b, "<text x=\"%.1f\" y=\"%d\">%s</text>\n", max(x, high)+8, middle+5, grouped(r.whole.Median, decimals))
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
