// Package svg draws the pictures of docs/img and of "sluice simulate", as SVG 1.1
// (https://www.w3.org/TR/SVG11/). They share one style, for light and dark pages.
package svg

import (
	"bytes"
	_ "embed"
	"fmt"
	"html"
	"math"
	"strings"
)

//go:embed style.css
var style string

// Canvas is a picture as it grows. Lengths are in pixels, and classes those of style.css.
type Canvas struct{ out bytes.Buffer }

// New is a page with nothing on it.
func New(width, height int, title string) *Canvas {
	c := new(Canvas)
	c.Add(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%[2]d" role="img">`, width,
		height)
	c.Add("<title>%s</title>\n<style>\n%s</style>", html.EscapeString(title), style)
	c.Add(`<rect class="page" x="0.5" y="0.5" width="%d" height="%d" rx="8"/>`, width-1, height-1)
	return c
}

// SVG is the picture.
func (c *Canvas) SVG() []byte { return append(bytes.Clone(c.out.Bytes()), "</svg>\n"...) }

// Add writes an element.
func (c *Canvas) Add(format string, values ...any) { fmt.Fprintf(&c.out, format+"\n", values...) }

// Text writes a line.
func (c *Canvas) Text(class string, x, y float64, format string, values ...any) {
	c.Add(`<text class="%s" x="%.1f" y="%.1f">%s</text>`, class, x, y, html.EscapeString(fmt.Sprintf(format, values...)))
}

// Rect draws a rectangle.
func (c *Canvas) Rect(class string, x, y, width, height float64) {
	c.Add(`<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, class, x, y, width, height)
}

// Path draws a path: its commands with their numbers.
func (c *Canvas) Path(class, format string, values ...any) {
	c.Add(`<path class="%s" d="%s"/>`, class, fmt.Sprintf(format, values...))
}

// Key explains a colour: a box at x, and a text behind it.
func (c *Canvas) Key(class string, x, y float64, text string) {
	c.Rect(class, x, y-10, 14, 12)
	c.Text("note", x+20, y, "%s", text)
}

// Plot is where values are drawn: From to To from its left edge to its right one, 0 to Most from
// its ground to its top.
type Plot struct {
	Left, Top, Right, Ground float64
	From, To, Most           float64
}

// X is where a value stands across.
func (p *Plot) X(value float64) float64 {
	return p.Left + (p.Right-p.Left)*(value-p.From)/(p.To-p.From)
}

// Y is where a value stands upright.
func (p *Plot) Y(value float64) float64 { return p.Ground - (p.Ground-p.Top)*value/p.Most }

// Grid draws lines for so many equal parts, with their values at the left; nil writes none.
func (p *Plot) Grid(c *Canvas, class string, parts int, text func(value float64) string) {
	for i := range parts + 1 {
		value := p.Most * float64(i) / float64(parts)
		c.Path("grid", "M%.1f %.1fH%.1f", p.Left, p.Y(value), p.Right)
		if text != nil {
			c.Text(class+" end", p.Left-8, p.Y(value)+4, "%s", text(value))
		}
	}
}

// Point is a value, and where it stands across.
type Point struct{ At, Value float64 }

// Steps is a path along points, each of which holds until the next, the last until the end.
func (p *Plot) Steps(points []Point) string {
	var d strings.Builder
	fmt.Fprintf(&d, "M%.1f %.1f", p.Left, p.Ground)
	last := 0.0
	for _, point := range points {
		if point.Value != last {
			fmt.Fprintf(&d, "H%.1fV%.1f", p.X(point.At), p.Y(point.Value))
			last = point.Value
		}
	}
	fmt.Fprintf(&d, "H%.1f", p.Right)
	return d.String()
}

// Area is the area below Steps.
func (p *Plot) Area(points []Point) string { return p.Steps(points) + fmt.Sprintf("V%.1fz", p.Ground) }

// Round is the next number from a value on with which an axis may end.
func Round(value float64) float64 {
	if value <= 0 {
		return 1
	}
	step := math.Pow(10, math.Floor(math.Log10(value)))
	for _, factor := range []float64{1, 2, 4, 5, 8} {
		if factor*step >= value {
			return factor * step
		}
	}
	return 10 * step
}

// Grouped writes a number with a comma between thousands.
func Grouped(value float64, decimals int) string {
	text := fmt.Sprintf("%.*f", decimals, value)
	whole, fraction, found := strings.Cut(text, ".")
	for i := len(whole) - 3; i > 0 && whole[i-1] != '-'; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if found {
		whole += "."
	}
	return whole + fraction
}
