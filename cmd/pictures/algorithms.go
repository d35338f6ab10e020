package main

import (
	"fmt"
	"strings"
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
	bottom := top + len(rows)*laneHeight
	c := newCanvas(width, bottom+62, "The same requests under each rate limiting algorithm")
	c.header()
	c.axis(bottom)
	for i, l := range rows {
		if err := c.lane(l, top+(i+1)*laneHeight-16); err != nil {
			return nil, err
		}
	}
	c.legend(bottom + 40)
	return c.finish(), nil
}

func (c *canvas) header() {
	c.text("title", 20, 34, fmt.Sprintf("The same %d requests under each algorithm: limit %d, window %d s",
		len(arrivals()), limit, window/second))
	for _, p := range phases {
		last := p.first + (p.requests-1)*p.interval
		from, to := x(p.first)-pitch/2, x(last)+pitch/2
		c.text("note middle", int(from+to)/2, top-30, p.note)
		c.add(`<path class="ground" fill="none" d="M%.1f %dv-5H%.1fv5"/>`, from, top-17, to)
	}
	c.text("note middle", admittedX, top-30, "admitted")
	c.text("note middle", mostX, top-30, "most in")
	c.text("note middle", mostX, top-15, "any 5 s")
}

// axis draws the edges of the windows, and the time below.
func (c *canvas) axis(bottom int) {
	for at := int64(0); at <= span; at += window {
		c.add(`<path class="edge" d="M%.1f %dV%d"/>`, x(at), top-8, bottom-8)
		c.text("tick middle", int(x(at)), bottom+8, fmt.Sprintf("%d s", at/second))
	}
}

// lane draws one algorithm, on the ground at y.
func (c *canvas) lane(l lane, y int) error {
	h, err := replay(l.limit)
	if err != nil {
		return fmt.Errorf("%s: %w", l.name, err)
	}
	c.text("name", 20, y-44, l.name)
	for i, note := range l.notes {
		c.text("note", 20, y-25+i*16, note)
	}
	c.room(h.remaining, y)
	c.add(`<path class="ground" d="M%d %dH%d"/>`, left, y, right)
	c.dots(h.outcomes, y)
	c.text("number", admittedX, y-22, fmt.Sprint(len(h.departures())))
	c.text("number", mostX, y-22, fmt.Sprint(h.most()))
	return nil
}

// room draws how many requests would be admitted at each time, as high as that
// many dots.
func (c *canvas) room(remaining []int64, y int) {
	var d strings.Builder
	fmt.Fprintf(&d, "M%d %d", left, y)
	height := int64(0)
	for i, n := range remaining {
		if n != height {
			fmt.Fprintf(&d, "H%.1fV%.1f", x(int64(i)*step), float64(y)-pitch*float64(n))
			height = n
		}
	}
	c.add(`<path class="room" d="%sH%dV%dz"/>`, d.String(), right, y)
}

// dots draws what became of the requests, each column in the order of marks.
func (c *canvas) dots(outcomes []outcome, y int) {
	stacked := map[int64]int{}
	put := func(draw mark, micros int64) {
		at := micros / column
		draw(c, x(at*column)+pitch/2, float64(y)-pitch*(float64(stacked[at])+0.5))
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
type mark func(c *canvas, cx, cy float64)

func admitted(c *canvas, cx, cy float64) {
	c.add(`<circle class="in" cx="%.1f" cy="%.1f" r="%.1f"/>`, cx, cy, radius)
}

func held(c *canvas, cx, cy float64) {
	c.add(`<circle class="held" cx="%.1f" cy="%.1f" r="%.1f"/>`, cx, cy, radius-0.6)
}

func rejected(c *canvas, cx, cy float64) {
	const arm = radius - 0.5
	c.add(`<path class="out" d="M%.1f %.1fl%.1f %.1fm%.1f 0l%.1f %.1f"/>`, cx-arm, cy-arm, 2*arm, 2*arm,
		-2*arm, 2*arm, -2*arm)
}

func (c *canvas) legend(y int) {
	for _, entry := range []struct {
		mark mark
		at   int
		text string
	}{
		{admitted, 0, "admitted, goes to the upstream"},
		{held, 216, "held, goes later"},
		{rejected, 344, "rejected"},
	} {
		entry.mark(c, float64(left+entry.at)+5, float64(y)-4)
		c.text("note", left+entry.at+14, y, entry.text)
	}
	c.add(`<rect class="room" x="%d" y="%d" width="14" height="12"/>`, left+434, y-10)
	c.text("note", left+454, y, "remaining: how many would fit now")
}
