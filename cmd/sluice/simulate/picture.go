package simulate

import (
	"bytes"
	"fmt"
	"html/template"
	"slices"

	"github.com/sluiceproxy/sluice/internal/svg"
)

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
	stacks, most := r.stacks()
	plot := svg.Plot{Left: 64, Top: 56, Right: 784, Ground: 296, To: r.Seconds, Most: svg.Round(most)}
	c := svg.New(808, 368, "Requests a second, by what became of them")
	c.Text("title", 20, 30, "Requests a second: %s in %s, %s admitted",
		svg.Grouped(float64(r.Requests), 0), span(r.Seconds), svg.Grouped(float64(r.Admitted), 0))
	plot.Grid(c, "note", 4, short)
	for i := range 5 {
		seconds := r.Seconds * float64(i) / 4
		c.Text("note middle", plot.X(seconds), plot.Ground+18, "%s", span(seconds))
	}
	for i, l := range slices.Backward(layers) { // each hides what those below it cover
		if slices.ContainsFunc(r.Chart, func(b Bucket) bool { return l.of(&b) > 0 }) {
			c.Path(l.class, "%s", plot.Area(stacks[i]))
		}
	}
	c.Path("ground", "M%.1f %.1fH%.1f", plot.Left, plot.Ground, plot.Right)
	x := plot.Left
	for _, l := range layers {
		c.Key(l.class, x, plot.Ground+46, l.text)
		x += float64(40 + 7*len(l.text))
	}
	return c.SVG()
}

// stacks are the requests a second up to and with each layer, and the most of all.
func (r *Report) stacks() (stacks [][]svg.Point, most float64) {
	length := r.Seconds / float64(len(r.Chart))
	stacks = make([][]svg.Point, len(layers))
	for i := range r.Chart {
		sum := int64(0)
		for j, l := range layers {
			sum += l.of(&r.Chart[i])
			stacks[j] = append(stacks[j], svg.Point{At: length * float64(i), Value: float64(sum) / length})
		}
		most = max(most, float64(sum)/length)
	}
	return stacks, most
}

// scaled are the units of a number, the greatest first.
type scaled []struct {
	from, unit float64
	format     string
}

func (s scaled) write(v float64) string {
	for _, one := range s {
		if v >= one.from {
			return fmt.Sprintf(one.format, v/one.unit)
		}
	}
	return ""
}

// short writes a number as axes have it.
func short(v float64) string {
	return scaled{{1e6, 1e6, "%gM"}, {1e4, 1e3, "%gk"}, {0, 1, "%g"}}.write(v)
}

// span writes seconds.
func span(seconds float64) string {
	return scaled{{7200, 3600, "%.3g h"}, {180, 60, "%.3g min"}, {0, 1, "%.3g s"}}.write(seconds)
}

var page = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>sluice simulate</title>
<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">
<style>
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; margin: 1rem 0 }
th, td { padding: .25rem .75rem; text-align: left; border-bottom: 1px solid #8884 }
svg { max-width: 100%; height: auto }
</style></head><body>
<h1>sluice simulate</h1>
{{.Picture}}
{{range .Tables}}<table>{{range $i, $row := .}}<tr>
{{- range $row}}{{if eq $i 0}}<th>{{.}}</th>{{else}}<td>{{.}}</td>{{end}}{{end}}</tr>
{{end}}</table>
{{end}}</body></html>
`))

// HTML is a page with the picture and tables, each with its heads first.
func (r *Report) HTML(tables [][][]string) ([]byte, error) {
	var out bytes.Buffer
	err := page.Execute(&out, map[string]any{"Picture": template.HTML(r.SVG()), "Tables": tables})
	return out.Bytes(), err
}
