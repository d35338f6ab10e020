package main

import (
	"fmt"

	"github.com/sluiceproxy/sluice/internal/svg"
)

// Lengths in pixels.
const (
	left       = 216 // of the plots: the names stand there
	perSecond  = 30
	plotWidth  = span / second * perSecond
	right      = left + plotWidth
	width      = right + 146
	top        = 98 // of the first lane
	laneHeight = 92
	pitch      = 7.5 // between the dots of a column, and between columns
	radius     = 3.0
	admittedX  = right + 44
	mostX      = right + 108
)

// column is the time that one column of dots stands for.
const column = second * pitch / perSecond

// x is where a time stands.
func x(micros int64) float64 { return left + float64(micros)*perSecond/second }

// drawAlgorithms shows the same requests under each algorithm.
func drawAlgorithms() ([]byte, error) {
	rows := lanes()
	bottom := float64(top + len(rows)*laneHeight)
	c := svg.New(width, int(bottom)+62, "The same requests under each rate limiting algorithm")
	drawHeader(c)
	for at := int64(0); at <= span; at += window { // the edges of the windows
		c.Path("edge", "M%.1f %dV%.1f", x(at), top-8, bottom-8)
		c.Text("tick middle", x(at), bottom+8, "%d s", at/second)
	}
	for i, l := range rows {
		if err := drawLane(c, l, float64(top+(i+1)*laneHeight-16)); err != nil {
			return nil, err
		}
	}
	drawMarks(c, bottom+40)
	return c.SVG(), nil
}

func drawHeader(c *svg.Canvas) {
	c.Text("title", 20, 34, "The same %d requests under each algorithm: limit %d, window %d s", len(arrivals()), limit,
		window/second)
	for _, p := range phases {
		from, to := x(p.first)-pitch/2, x(p.first+(p.requests-1)*p.interval)+pitch/2
		c.Text("note middle", (from+to)/2, top-30, "%s", p.note)
		c.Path("ground", "M%.1f %dv-5H%.1fv5", from, top-17, to)
	}
	c.Text("note middle", admittedX, top-30, "admitted")
	c.Text("note middle", mostX, top-30, "most in")
	c.Text("note middle", mostX, top-15, "any 5 s")
}

// drawLane draws one algorithm, on the ground at y: the requests, and how many more would be
// admitted at each time, as high as that many dots.
func drawLane(c *svg.Canvas, l lane, y float64) error {
	h, err := replay(l.limit)
	if err != nil {
		return fmt.Errorf("%s: %w", l.name, err)
	}
	c.Text("name", 20, y-44, "%s", l.name)
	for i, note := range l.notes {
		c.Text("note", 20, y-25+float64(i)*16, "%s", note)
	}
	plot := svg.Plot{Left: left, Right: right, Ground: y, Top: y - pitch, To: span, Most: 1}
	c.Path("room", "%s", plot.Area(h.remaining))
	c.Path("ground", "M%d %.1fH%d", left, y, right)
	drawDots(c, h.outcomes, y)
	c.Text("number middle", admittedX, y-22, "%d", len(h.departures()))
	c.Text("number middle", mostX, y-22, "%d", h.most())
	return nil
}

// drawDots draws what became of the requests, each column in the order of marks.
func drawDots(c *svg.Canvas, outcomes []outcome, y float64) {
	stacked := map[int64]int{}
	put := func(draw mark, micros int64) {
		at := micros / column
		draw(c, x(at*column)+pitch/2, y-pitch*(float64(stacked[at])+0.5))
		stacked[at]++
	}
	for _, o := range outcomes {
		if o.admitted {
			put(admitted, o.left)
		}
	}
	for _, o := range outcomes {
		if o.admitted && o.left > o.arrived {
			put(held, o.arrived)
		}
	}
	for _, o := range outcomes {
		if !o.admitted {
			put(rejected, o.arrived)
		}
	}
}

// mark draws what stands for a request, around a point.
type mark func(c *svg.Canvas, cx, cy float64)

func admitted(c *svg.Canvas, cx, cy float64) {
	c.Add(`<circle class="admitted" cx="%.1f" cy="%.1f" r="%.1f"/>`, cx, cy, radius)
}

func held(c *svg.Canvas, cx, cy float64) {
	c.Add(`<circle class="held" cx="%.1f" cy="%.1f" r="%.1f"/>`, cx, cy, radius-0.6)
}

func rejected(c *svg.Canvas, cx, cy float64) {
	const arm = radius - 0.5
	c.Path("out", "M%.1f %.1fl%.1f %.1fm%.1f 0l%.1f %.1f", cx-arm, cy-arm, 2*arm, 2*arm, -2*arm, 2*arm, -2*arm)
}

// explain says what a mark is.
func (m mark) explain(c *svg.Canvas, x, y float64, text string) {
	m(c, x+5, y-4)
	c.Text("note", x+14, y, "%s", text)
}

func drawMarks(c *svg.Canvas, y float64) {
	mark(admitted).explain(c, left, y, "admitted, goes to the upstream")
	mark(held).explain(c, left+216, y, "held, goes later")
	mark(rejected).explain(c, left+344, y, "rejected")
	c.Key("room", left+434, y, "remaining: how many would fit now")
}
