package main

import (
	"bytes"
	"fmt"
	"html"
)

// style has the colours of a light page, then those of a dark one.
const style = `text { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif; fill: #1f2933 }
.title { font-size: 17px; font-weight: 600 }
.name { font: 600 13px ui-monospace, SFMono-Regular, Menlo, "DejaVu Sans Mono", monospace }
.note, .tick { font-size: 12px; fill: #52606d }
.number { font-size: 17px; font-weight: 600; text-anchor: middle }
.middle { text-anchor: middle }
.end { text-anchor: end }
.heading { font-size: 15px; font-weight: 600 }
.sum { font-size: 15px; font-weight: 600; text-anchor: end; fill: #1f5fbf }
.bad { fill: #c2410c }
.grid { stroke: #e4e8ec }
.limit { stroke: #1f2933; stroke-width: 1.5; stroke-dasharray: 6 4 }
.unseen { fill: #e2e5e9 }
.over { fill: #c2410c }
.light { fill: #f5c9ae }
.page { fill: #ffffff; stroke: #d5dbe1 }
.edge { stroke: #b8c2cc; stroke-dasharray: 2 4 }
.ground { stroke: #7b8794 }
.room { fill: #cfe3fa }
.in { fill: #1f5fbf }
.held { stroke: #1f5fbf; stroke-width: 1.3; fill: none }
.out { stroke: #c2410c; stroke-width: 1.6; fill: none }
@media (prefers-color-scheme: dark) {
text { fill: #e6eaef }
.note, .tick { fill: #a3b1bf }
.page { fill: #12171d; stroke: #2f3944 }
.edge { stroke: #46525f }
.sum { fill: #7db8ff }
.bad { fill: #ff9f5a }
.grid { stroke: #25303b }
.limit { stroke: #e6eaef }
.unseen { fill: #38424d }
.over { fill: #ff9f5a }
.light { fill: #74411f }
.ground { stroke: #7b8794 }
.room { fill: #1d3a5f }
.in { fill: #7db8ff }
.held { stroke: #7db8ff }
.out { stroke: #ff9f5a }
}
`

// canvas is a picture as it grows, as SVG 1.1 (https://www.w3.org/TR/SVG11/).
type canvas struct{ bytes.Buffer }

// newCanvas is an empty page. Lengths are in pixels.
func newCanvas(width, height int, title string) *canvas {
	c := new(canvas)
	c.add(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%[2]d" role="img">`,
		width, height)
	c.add("<title>%s</title>", html.EscapeString(title))
	c.add("<style>\n%s</style>", style)
	c.add(`<rect class="page" x="0.5" y="0.5" width="%d" height="%d" rx="8"/>`, width-1, height-1)
	return c
}

// finish is the whole picture.
func (c *canvas) finish() []byte {
	c.add("</svg>")
	return c.Bytes()
}

func (c *canvas) add(format string, values ...any) { fmt.Fprintf(c, format+"\n", values...) }

func (c *canvas) text(class string, x, y int, text string) {
	c.add(`<text class="%s" x="%d" y="%d">%s</text>`, class, x, y, html.EscapeString(text))
}
