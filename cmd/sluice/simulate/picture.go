package simulate

import (
	"bytes"
	"fmt"
	"html/template"
	"strings"
)

// Lengths in pixels.
const (
	plotLeft   = 64
	plotTop    = 56
	plotWidth  = 720
	plotHeight = 240
	pageWidth  = plotLeft + plotWidth + 24
	pageHeight = plotTop + plotHeight + 72
)

const pictureStyle = `text { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; fill: #1f2933 }
.title { font-size: 16px; font-weight: 600 }
.note { font-size: 12px; fill: #52606d }
.middle { text-anchor: middle } .right { text-anchor: end }
.page { fill: #ffffff; stroke: #d5dbe1 } .line { stroke: #e3e8ed } .ground { stroke: #7b8794 }
.admitted { fill: #1f5fbf } .undecided { fill: #9fb8dd } .rejected { fill: #c2410c } .refused { fill: #7a1f5c }
@media (prefers-color-scheme: dark) {
text { fill: #e6eaef } .note { fill: #a3b1bf }
.page { fill: #12171d; stroke: #2f3944 } .line { stroke: #26303a }
.admitted { fill: #7db8ff } .undecided { fill: #3c5f8a } .rejected { fill: #ff9f5a } .refused { fill: #d77fb8 }
}
`

// layer is one kind of outcome in the picture, from the ground up.
type layer struct {
	class, text string
	of          func(*Bucket) int64
}

var layers = []layer{
	{"admitted", "admitted", func(b *Bucket) int64 { return b.Admitted }},
	{"undecided", "let pass, as Redis did not decide", func(b *Bucket) int64 { return b.Undecided }},
	{"rejected", "rejected (429)", func(b *Bucket) int64 { return b.Rejected }},
	{"refused", "refused (503)", func(b *Bucket) int64 { return b.Refused }},
}

// SVG draws what became of the requests over time.
func (r *Report) SVG() []byte {
	var out bytes.Buffer
	add := func(format string, values ...any) { fmt.Fprintf(&out, format+"\n", values...) }
	perBucket := r.Seconds / float64(len(r.Chart))
	top := scaleTop(r.most() / perBucket)
	add(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%[2]d" role="img">`,
		pageWidth, pageHeight)
	add("<title>Requests a second, by what became of them</title>\n<style>\n%s</style>", pictureStyle)
	add(`<rect class="page" x="0.5" y="0.5" width="%d" height="%d" rx="8"/>`, pageWidth-1, pageHeight-1)
	add(`<text class="title" x="20" y="30">Requests a second: %s in %s, %s admitted</text>`,
		grouped(r.Requests), span(r.Seconds), grouped(r.Admitted))
	for i := range 5 {
		y := plotTop + plotHeight - i*plotHeight/4
		add(`<path class="line" d="M%d %dh%d"/><text class="note right" x="%d" y="%d">%s</text>`,
			plotLeft, y, plotWidth, plotLeft-8, y+4, short(top*float64(i)/4))
		x := plotLeft + i*plotWidth/4
		add(`<text class="note middle" x="%d" y="%d">%s</text>`, x, plotTop+plotHeight+18, span(r.Seconds*float64(i)/4))
	}
	r.areas(add, perBucket, top)
	add(`<path class="ground" d="M%d %dh%d"/>`, plotLeft, plotTop+plotHeight, plotWidth)
	x := plotLeft
	for _, l := range layers {
		add(`<rect class="%s" x="%d" y="%d" width="12" height="12"/><text class="note" x="%d" y="%d">%s</text>`,
			l.class, x, plotTop+plotHeight+36, x+18, plotTop+plotHeight+46, l.text)
		x += 40 + 7*len(l.text)
	}
	add("</svg>")
	return out.Bytes()
}

// most is the most requests of one part of the time.
func (r *Report) most() float64 {
	most := int64(1)
	for i := range r.Chart {
		sum := int64(0)
		for _, l := range layers {
			sum += l.of(&r.Chart[i])
		}
		most = max(most, sum)
	}
	return float64(most)
}

// areas draws the layers as steps, one upon the other.
func (r *Report) areas(add func(string, ...any), perBucket, top float64) {
	width := float64(plotWidth) / float64(len(r.Chart))
	below := make([]float64, len(r.Chart))
	y := func(perSecond float64) float64 { return plotTop + plotHeight*(1-perSecond/top) }
	for _, l := range layers {
		var up, down []string
		drawn := false
		for i := range r.Chart {
			height := float64(l.of(&r.Chart[i])) / perBucket
			drawn = drawn || height > 0
			left, right := plotLeft+width*float64(i), plotLeft+width*float64(i+1)
			up = append(up, fmt.Sprintf("%.1f %.1fL%.1f %.1[2]f", left, y(below[i]+height), right))
			down = append(down, fmt.Sprintf("%.1f %.1fL%.1f %.1[2]f", right, y(below[i]), left))
			below[i] += height
		}
		if !drawn {
			continue
		}
		for i, j := 0, len(down)-1; i < j; i, j = i+1, j-1 {
			down[i], down[j] = down[j], down[i]
		}
		add(`<path class="%s" d="M%sL%sz"/>`, l.class, strings.Join(up, "L"), strings.Join(down, "L"))
	}
}

// scaleTop is a round number that is not below a value.
func scaleTop(value float64) float64 {
	step := 1.0
	for {
		for _, factor := range []float64{1, 2, 4, 8} {
			if step*factor >= value {
				return step * factor
			}
		}
		step *= 10
	}
}

// short writes a number as axes have it.
func short(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%gM", v/1e6)
	case v >= 1e4:
		return fmt.Sprintf("%gk", v/1e3)
	}
	return fmt.Sprintf("%g", v)
}

// span writes seconds.
func span(seconds float64) string {
	switch {
	case seconds >= 7200:
		return fmt.Sprintf("%.3g h", seconds/3600)
	case seconds >= 180:
		return fmt.Sprintf("%.3g min", seconds/60)
	}
	return fmt.Sprintf("%.3g s", seconds)
}

// grouped writes a whole number with commas.
func grouped(v int64) string {
	text := fmt.Sprint(v)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

var page = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>sluice simulate</title>
<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">
<style>
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; margin: 1rem 0 } th, td { padding: .25rem .75rem; text-align: left; border-bottom: 1px solid #8884 }
svg { max-width: 100%; height: auto }
</style></head><body>
<h1>sluice simulate</h1>
{{.Picture}}
{{range .Tables}}<table>{{range $i, $row := .}}<tr>{{range $row}}{{if eq $i 0}}<th>{{.}}</th>{{else}}<td>{{.}}</td>{{end}}{{end}}</tr>
{{end}}</table>
{{end}}</body></html>
`))

// HTML is a page with the picture and tables, each with its heads first.
func (r *Report) HTML(tables [][][]string) ([]byte, error) {
	var out bytes.Buffer
	err := page.Execute(&out, map[string]any{"Picture": template.HTML(r.SVG()), "Tables": tables})
	return out.Bytes(), err
}
