package observe

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/promtest"
	"github.com/sluiceproxy/sluice/internal/svg"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// draw draws the dashboard with what Prometheus knows of the time since a moment.
func (s *scene) draw(t *testing.T, from time.Time) {
	drawn, err := drawDashboard(s.prometheus, promtest.ReadDashboard(t), s.outages, from, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	testenv.WellFormed(t, "the picture", drawn)
	if lines := bytes.Count(drawn, []byte(`<path class="line`)); lines < 50 {
		t.Errorf("the picture has %d lines", lines)
	}
	testenv.Renew(t, filepath.Join(testenv.Root(t), "docs/img/dashboard.svg"), string(drawn))
}

// Lengths in pixels. Grafana's grid has 24 columns.
const (
	cellWidth, cellHeight = 50, 26
	gap                   = 8 // between panels
	columns               = 24
	plotTop, plotLeft     = 30, 54 // within a panel
	plotBottom            = 40     // within a panel, from below, with one row of the legend
	legendHeight          = 15
)

const colours = 10

// period is a part of the time.
type period struct{ from, to time.Time }

// drawDashboard draws all panels where Grafana would. Outages of Redis are shaded.
func drawDashboard(
	p *promtest.Prometheus, board *promtest.Dashboard, outages []period, from, to time.Time,
) ([]byte, error) {
	height := 0
	for _, panel := range board.Panels {
		height = max(height, (panel.GridPos.Y+panel.GridPos.H)*cellHeight)
	}
	d := svg.New(columns*cellWidth, height, board.Title)
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
	if len(outages) > 0 { // next to the first row's title
		first := board.Panels[slices.IndexFunc(board.Panels, func(p promtest.Panel) bool { return p.Type == "row" })]
		d.Key("outage", columns*cellWidth-110, float64(first.GridPos.Y*cellHeight)+17, "Redis is down")
	}
	return d.SVG(), nil
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
	plot       svg.Plot
}

func (c *chart) draw(d *svg.Canvas) {
	at := c.panel.GridPos
	c.x, c.y = float64(at.X*cellWidth), float64(at.Y*cellHeight)
	c.w, c.h = float64(at.W*cellWidth-gap), float64(at.H*cellHeight-gap)
	if c.panel.Type == "row" {
		d.Text("heading", c.x+4, c.y+17, "%s", c.panel.Title)
		return
	}
	d.Rect("page", c.x+0.5, c.y+0.5, c.w, c.h)
	d.Text("strong", c.x+10, c.y+19, "%s", c.panel.Title)
	if c.panel.Type == "stat" {
		d.Text("big middle", c.x+c.w/2, c.y+c.h/2+22, "%s", c.format(c.last()))
		return
	}
	if c.panel.FieldConfig.Defaults.Custom.Stacking.Mode == "normal" {
		c.stack()
	}
	c.plot = svg.Plot{
		Left: c.x + plotLeft, Right: c.x + c.w - 12, From: seconds(c.from), To: seconds(c.to),
		Top: c.y + plotTop, Ground: c.y + c.h - plotBottom - float64(c.names(nil)-1)*legendHeight, Most: svg.Round(c.most()),
	}
	for _, o := range c.outages { // of Redis
		from, to := c.plot.X(seconds(o.from)), c.plot.X(seconds(o.to))
		d.Rect("outage", from, c.plot.Top, to-from, c.plot.Ground-c.plot.Top)
	}
	c.plot.Grid(d, "small", 2, c.format)
	tick := 10.0 // seconds, so many that the labels have room
	for c.plot.X(tick)-c.plot.X(0) < 42 {
		tick *= 2
	}
	for n := 0.0; n < c.plot.To-c.plot.From; n += tick {
		d.Text("small end", c.plot.X(c.plot.From+n)+8, c.plot.Ground+13, "%.0fs", n)
	}
	c.lead(d)
	c.names(d)
}

func seconds(at time.Time) float64 { return float64(at.UnixMilli()) / 1000 }

func (c *chart) format(value float64) string { return format(value, c.panel.FieldConfig.Defaults.Unit) }

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

// most is the greatest number of all.
func (c *chart) most() (most float64) {
	for _, l := range c.lines {
		for _, p := range l.points {
			if !math.IsNaN(p.Value) {
				most = max(most, p.Value)
			}
		}
	}
	return most
}

// lead draws the lines, with gaps where there is no number.
func (c *chart) lead(d *svg.Canvas) {
	for i, l := range c.lines {
		var path strings.Builder
		pen := "M"
		for _, p := range l.points {
			if math.IsNaN(p.Value) {
				pen = "M"
				continue
			}
			fmt.Fprintf(&path, "%s%.1f %.1f", pen, c.plot.X(p.At), c.plot.Y(p.Value))
			pen = "L"
		}
		if path.Len() > 0 {
			d.Path(fmt.Sprintf("line c%d", i%colours), "%s", path.String())
		}
	}
}

// names draws the legend, in as many rows as it takes, and returns how many these are.
// Without a drawing it counts them.
func (c *chart) names(d *svg.Canvas) (rows int) {
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
		d.Path(fmt.Sprintf("line c%d", i%colours), "M%.1f %.1fh12", at.x, y-4)
		d.Text("small", at.x+16, y, "%s", l.name)
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
	case value >= 1e6:
		return fmt.Sprintf("%.3gM", value/1e6)
	case value >= 1000:
		return fmt.Sprintf("%.3gk", value/1000)
	}
	return fmt.Sprintf("%.3g", value)
}
