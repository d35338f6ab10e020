package observe

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"html"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/promtest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// draw draws the dashboard with what Prometheus knows of the time since a moment.
func (s *scene) draw(t *testing.T, from time.Time) {
	svg, err := drawDashboard(s.prometheus, promtest.ReadDashboard(t), s.outages, from, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("the picture is no XML: %v", err)
		}
	}
	if lines := bytes.Count(svg, []byte(`<path class="line`)); lines < 50 {
		t.Errorf("the picture has %d lines", lines)
	}
	testenv.Renew(t, filepath.Join(testenv.Root(t), "docs/img/dashboard.svg"), string(svg))
}

// Lengths in pixels. Grafana's grid has 24 columns.
const (
	cellWidth, cellHeight = 50, 26
	gap                   = 8 // between panels
	columns               = 24
	plotTop, plotLeft     = 30, 54 // within a panel
	plotBottom            = 40     // likewise, from below, with one row of the legend
	legendHeight          = 15
	lineHeight            = 14
)

// chartStyle has the colours of a light page, then those of a dark one.
const chartStyle = `text { font: 11px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif; fill: #52606d }
.title { font-size: 13px; font-weight: 600; fill: #1f2933 }
.row { font-size: 15px; font-weight: 600; fill: #1f2933 }
.big { font-size: 30px; font-weight: 600; text-anchor: middle; fill: #1f5fbf }
.end { text-anchor: end }
.panel { fill: #ffffff; stroke: #d5dbe1 }
.grid { stroke: #e4e8ec } .outage { fill: #c2410c; fill-opacity: 0.12 }
.line { fill: none; stroke-width: 1.5; stroke-linejoin: round }
.c0 { stroke: #1f5fbf } .c1 { stroke: #c2410c } .c2 { stroke: #15803d } .c3 { stroke: #9333ea }
.c4 { stroke: #b45309 } .c5 { stroke: #0e7490 } .c6 { stroke: #be185d } .c7 { stroke: #64748b }
@media (prefers-color-scheme: dark) {
text { fill: #a3b1bf } .title, .row { fill: #e6eaef } .big { fill: #7db8ff }
.panel { fill: #12171d; stroke: #2f3944 } .grid { stroke: #25303b }
.c0 { stroke: #7db8ff } .c1 { stroke: #ff9f5a } .c2 { stroke: #6ee7a0 } .c3 { stroke: #d8b4fe }
.c4 { stroke: #fcd34d } .c5 { stroke: #67e8f9 } .c6 { stroke: #f9a8d4 } .c7 { stroke: #cbd5e1 }
}
`

const colours = 8

// drawing is a picture as it grows.
type drawing struct{ bytes.Buffer }

func (d *drawing) add(format string, values ...any) { fmt.Fprintf(d, format+"\n", values...) }

func (d *drawing) text(class string, x, y float64, text string) {
	d.add(`<text class="%s" x="%.0f" y="%.0f">%s</text>`, class, x, y, html.EscapeString(text))
}

// period is a part of the time.
type period struct{ from, to time.Time }

// drawDashboard draws all panels where Grafana would. Outages of Redis are shaded.
func drawDashboard(
	p *promtest.Prometheus, board *promtest.Dashboard, outages []period, from, to time.Time,
) ([]byte, error) {
	d := new(drawing)
	height := 0
	for _, panel := range board.Panels {
		height = max(height, (panel.GridPos.Y+panel.GridPos.H)*cellHeight)
	}
	d.add(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%[2]d" role="img">`,
		columns*cellWidth, height)
	d.add("<title>%s</title>\n<style>\n%s</style>", html.EscapeString(board.Title), chartStyle)
	for _, panel := range board.Panels {
		c := chart{panel: panel, outages: outages, from: from, to: to}
		for _, target := range panel.Targets {
			found, err := p.During(promtest.Interpolate(target.Expr, "10s"), from, to)
			if err != nil {
				return nil, err
			}
			for _, s := range found {
				if slices.ContainsFunc(s.Values, func(p promtest.Point) bool { return p.Value > 0 }) {
					c.lines = append(c.lines, line{legend(target.LegendFormat, s.Metric), s.Values})
				}
			}
		}
		slices.SortStableFunc(c.lines, func(a, b line) int { return cmp.Compare(rank(a.name), rank(b.name)) })
		c.draw(d)
	}
	d.add("</svg>")
	return d.Bytes(), nil
}

// rank is the number that a line's name is: ranks are not sorted as words.
func rank(name string) int {
	n, err := strconv.Atoi(name)
	if err != nil {
		return 0
	}
	return n
}

// legend sets the labels in a legend, such as "{{rule}}: {{limit}}".
func legend(format string, labels map[string]string) string {
	for name, value := range labels {
		format = strings.ReplaceAll(format, "{{"+name+"}}", value)
	}
	return format
}

// line is one of a chart. Those that are zero all the time are left out.
type line struct {
	name   string
	points []promtest.Point
}

// chart is a panel with its data.
type chart struct {
	panel    promtest.Panel
	outages  []period
	from, to time.Time
	lines    []line

	x, y, w, h float64 // where the panel is
	below      float64 // the plot: the times, and the legend's rows
	most       float64 // at the top of the plot
}

func (c *chart) draw(d *drawing) {
	at := c.panel.GridPos
	c.x, c.y = float64(at.X*cellWidth), float64(at.Y*cellHeight)
	c.w, c.h = float64(at.W*cellWidth-gap), float64(at.H*cellHeight-gap)
	if c.panel.Type == "row" {
		d.text("row", c.x+4, c.y+17, c.panel.Title)
		return
	}
	d.add(`<rect class="panel" x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="4"/>`, c.x+0.5, c.y+0.5, c.w, c.h)
	d.text("title", c.x+10, c.y+19, c.panel.Title)
	if c.panel.Type == "stat" {
		d.text("big", c.x+c.w/2, c.y+c.h/2+22, format(c.last(), c.panel.FieldConfig.Defaults.Unit))
		return
	}
	if c.panel.FieldConfig.Defaults.Custom.Stacking.Mode == "normal" {
		c.stack()
	}
	c.below = plotBottom + float64(c.names(nil)-1)*legendHeight
	c.scale()
	c.shade(d)
	c.axes(d)
	c.plot(d)
	c.names(d)
}

// last is the newest number of all.
func (c *chart) last() (value float64) {
	for _, l := range c.lines {
		for _, p := range l.points {
			if !math.IsNaN(p.Value) {
				value = p.Value
			}
		}
	}
	return value
}

// stack puts each line on those before it.
func (c *chart) stack() {
	below := map[float64]float64{}
	for _, l := range c.lines {
		for i, p := range l.points {
			if !math.IsNaN(p.Value) {
				below[p.At] += p.Value
				l.points[i].Value = below[p.At]
			}
		}
	}
}

// scale finds a round number that no line is above.
func (c *chart) scale() {
	top := 0.0
	for _, l := range c.lines {
		for _, p := range l.points {
			if !math.IsNaN(p.Value) {
				top = max(top, p.Value)
			}
		}
	}
	if top == 0 {
		top = 1
	}
	step := math.Pow(10, math.Floor(math.Log10(top)))
	for _, factor := range []float64{1, 2, 4, 5, 8, 10} {
		if c.most = factor * step; c.most >= top {
			return
		}
	}
}

func (c *chart) px(at float64) float64 {
	from, to := float64(c.from.UnixMilli())/1000, float64(c.to.UnixMilli())/1000
	return c.x + plotLeft + (c.w-plotLeft-12)*(at-from)/(to-from)
}

func (c *chart) py(value float64) float64 {
	return c.y + c.h - c.below - (c.h-plotTop-c.below)*value/c.most
}

// shade marks when Redis was down.
func (c *chart) shade(d *drawing) {
	for _, o := range c.outages {
		from, to := c.px(float64(o.from.UnixMilli())/1000), c.px(float64(o.to.UnixMilli())/1000)
		d.add(`<rect class="outage" x="%.1f" y="%.1f" width="%.1f" height="%.1f"><title>Redis is down</title></rect>`, from,
			c.y+plotTop, to-from, c.h-plotTop-c.below)
	}
}

// axes draws the values at the left, and the seconds since the beginning below.
func (c *chart) axes(d *drawing) {
	for i := range 3 {
		value := c.most * float64(i) / 2
		d.add(`<path class="grid" d="M%.1f %.1fH%.1f"/>`, c.x+plotLeft, c.py(value), c.x+c.w-12)
		d.text("end", c.x+plotLeft-5, c.py(value)+4, format(value, c.panel.FieldConfig.Defaults.Unit))
	}
	tick := 10 // seconds, so many that the labels have room
	for c.px(float64(tick))-c.px(0) < 42 {
		tick *= 2
	}
	for n := 0; time.Duration(n)*time.Second < c.to.Sub(c.from); n += tick {
		at := float64(c.from.UnixMilli())/1000 + float64(n)
		d.text("end", c.px(at)+8, c.y+c.h-c.below+13, fmt.Sprintf("%ds", n))
	}
}

// plot draws the lines, with gaps where there is no number.
func (c *chart) plot(d *drawing) {
	for i, l := range c.lines {
		var path strings.Builder
		pen := "M"
		for _, p := range l.points {
			if math.IsNaN(p.Value) {
				pen = "M"
				continue
			}
			fmt.Fprintf(&path, "%s%.1f %.1f", pen, c.px(p.At), c.py(p.Value))
			pen = "L"
		}
		if path.Len() > 0 {
			d.add(`<path class="line c%d" d="%s"/>`, i%colours, path.String())
		}
	}
}

// names draws the legend, in as many rows as it takes, and returns how many these are.
// Without a drawing it counts them.
func (c *chart) names(d *drawing) (rows int) {
	x, rows := c.x+12, 1
	type place struct {
		x   float64
		row int
	}
	places := make([]place, len(c.lines))
	for i, l := range c.lines {
		width := 26 + 6.2*float64(len(l.name))
		if x+width > c.x+c.w && x > c.x+12 {
			x, rows = c.x+12, rows+1
		}
		places[i] = place{x, rows}
		x += width
	}
	for i, l := range c.lines {
		if d == nil {
			break
		}
		at, y := places[i], c.y+c.h-8-float64(rows-places[i].row)*legendHeight
		d.add(`<path class="line c%d" d="M%.1f %.1fh12"/>`, i%colours, at.x, y-4)
		d.text("", at.x+16, y, l.name)
	}
	return rows
}

// format writes a value in one of Grafana's units.
func format(value float64, unit string) string {
	switch {
	case unit == "percentunit":
		return fmt.Sprintf("%.3g %%", 100*value)
	case unit == "s" && value > 0 && value < 1:
		return fmt.Sprintf("%.3g ms", 1000*value)
	case unit == "s":
		return fmt.Sprintf("%.3g s", value)
	case unit == "reqps" || unit == "ops":
		return format(value, "") + "/s"
	case value >= 1000:
		return fmt.Sprintf("%.3gk", value/1000)
	}
	return fmt.Sprintf("%.3g", value)
}
