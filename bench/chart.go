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
	chartWidth  = 860
	labelWidth  = 320 // of the setups' titles
	valueWidth  = 110 // of the figures behind the bars
	barsWidth   = chartWidth - labelWidth - valueWidth
	rowHeight   = 24
	barHeight   = 14
	panelHead   = 58 // title and legend of a panel
	panelMargin = 16
	edge        = 16
	barsLeft    = edge + labelWidth
)

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
	{"Requests that are admitted", pair, []shown{
		{sluice, "Sluice"},
		{sluiceProxy, "Sluice, through redis_proxy"},
		{sluiceThree, "Sluice, three limits in a rule"},
		{leased, "Sluice, with a lease"},
		{pair, "Envoy's ratelimit filter and its service"},
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

// chart draws throughput and what a check costs.
func (r *report) chart() string {
	panels := []*panel{r.throughputPanel(), r.costPanel()}
	c := svg.New(chartWidth+2*edge, panels[0].height()+panels[1].height()+edge, panels[0].title+"; "+panels[1].title)
	y := float64(edge)
	for _, p := range panels {
		p.draw(c, y)
		y += float64(p.height())
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

// bars are those of the setups that were measured, the shortest first.
func (r *report) bars(setups []shown, of func(id string) bar) (bars []bar) {
	for _, s := range setups {
		id := r.inChart(s.id)
		if len(r.Results[id][mainLoad]) == 0 {
			continue
		}
		b := of(id)
		b.title, b.ours = s.title, strings.HasPrefix(id, sluice)
		bars = append(bars, b)
	}
	slices.SortFunc(bars, func(a, b bar) int { return cmp.Compare(a.whole.Median, b.whole.Median) })
	return bars
}

func (r *report) throughputPanel() *panel {
	p := &panel{
		title: "Requests per second",
		note: "one Envoy worker, 16 connections; the line is from the least to the most of the rounds; × is of the " +
			"pair's in the same group",
	}
	for _, g := range groups {
		bars := r.bars(g.setups, func(id string) bar {
			b := bar{whole: r.Results.spread(id, mainLoad, requestsPerSecond)}
			class := "peer"
			if strings.HasPrefix(id, sluice) {
				class = "sluice"
			}
			b.parts = []part{{class, b.whole.Median}}
			if against := r.inChart(g.against); against != "" && against != id {
				b.times = b.whole.Median / r.Results.spread(against, mainLoad, requestsPerSecond).Median
			}
			return b
		})
		slices.Reverse(bars)
		if len(bars) > 0 {
			p.bars = append(append(p.bars, bar{title: g.title}), bars...)
		}
	}
	return p
}

func (r *report) costPanel() *panel {
	median := func(id string, q quantity) float64 { return r.Results.spread(id, mainLoad, q).Median }
	return &panel{
		title:    "CPU time of a check that is admitted, in microseconds",
		note:     "what Envoy without a limiter uses is not in it",
		legend:   []string{"envoy", "service", "redis"},
		decimals: 1,
		bars: r.bars(append(slices.Clone(groups[0].setups), groups[2].setups...), func(id string) bar {
			return bar{whole: r.Results.checkCost(id, mainLoad), parts: []part{
				{"envoy", max(0, median(id, envoyCPU)-median(unlimited, envoyCPU))},
				{"service", median(id, serviceCPU)},
				{"redis", median(id, redisCPU)},
			}}
		}),
	}
}

// draw writes the panel with its upper edge at y.
func (p *panel) draw(c *svg.Canvas, y float64) {
	c.Text("title", edge, y+20, "%s", p.title)
	c.Text("note", edge, y+40, "%s", p.note)
	for i, class := range p.legend {
		c.Key(class, float64(barsLeft+i*90), y+40, strings.ToUpper(class[:1])+class[1:])
	}
	if len(p.bars) == 0 {
		return
	}
	longest := slices.MaxFunc(p.bars, func(a, b bar) int { return cmp.Compare(a.whole.Max, b.whole.Max) })
	plot := svg.Plot{Left: barsLeft, Right: barsLeft + barsWidth, To: longest.whole.Max}
	for i, row := range p.bars {
		row.draw(c, y+float64(panelHead+i*rowHeight), &plot, p.decimals)
	}
}

func (r *bar) draw(c *svg.Canvas, y float64, plot *svg.Plot, decimals int) {
	middle := y + barHeight/2
	if len(r.parts) == 0 {
		c.Text("group", edge, middle+5, "%s", r.title)
		return
	}
	class := "end"
	if r.ours {
		class = "strong end"
	}
	c.Text(class, barsLeft-10, middle+5, "%s", r.title)
	sum := 0.0
	for _, each := range r.parts {
		c.Rect(each.class, plot.X(sum), y, plot.X(each.value)-plot.Left, barHeight)
		sum += each.value
	}
	low, high := plot.X(max(0, r.whole.Min)), plot.X(max(0, r.whole.Max))
	c.Path("range", "M%.1f %.1fH%.1f", low, middle, high)
	text := svg.Grouped(r.whole.Median, decimals)
	if r.times > 0 { // as many as the other's
		text += fmt.Sprintf(", %.1f ×", r.times)
	}
	c.Text("figure", max(plot.X(sum), high)+8, middle+5, "%s", text)
}
