package main

import (
	"cmp"
	_ "embed"
	"fmt"
	"slices"

	"github.com/sluiceproxy/sluice/internal/ledger"
	"github.com/sluiceproxy/sluice/internal/svg"
)

//go:embed settle.json
var settleRecord []byte

func recorded() (*ledger.Ledger, error) { return ledger.Unmarshal(settleRecord) }

// Lengths in pixels, of the picture of settlements.
const (
	settleWidth  = 920
	settleHeight = 560
	panelWidth   = 400
	groundY      = 470 // below the dots
	dot          = 6.5 // between dots
	tokensTop    = 20_000
	settleSpan   = 13_500 // milliseconds
)

// panel is one way of counting: a plot of tokens over time, and what became of each
// request below it.
type panel struct {
	*svg.Canvas
	svg.Plot

	limit int64
	run   *ledger.Run
	after bool // counted when requests have ended
}

// drawSettle shows what the same requests of LLM clients do to a limit on tokens: with
// reservations that are settled, and counted when they have ended.
func drawSettle() ([]byte, error) {
	l, err := recorded()
	if err != nil {
		return nil, err
	}
	c := svg.New(settleWidth, settleHeight, "Tokens that LLM clients use: reserved and settled, or counted afterwards")
	c.Text("title", 20, 34, "The same %d streaming requests against %s tokens a minute", len(l.Settled.Requests),
		thousands(l.Limit))
	c.Text("note", 20, 54, "Recorded on Envoy and Redis. 24 requests come in the first second, then 5 a second. A "+
		"stream takes 1 to 4 s.")
	plot := svg.Plot{Left: 74, Right: 74 + panelWidth, Top: 128, Ground: 388, To: settleSpan, Most: tokensTop}
	plot.Grid(c, "tick", 4, func(tokens float64) string { return svg.Grouped(tokens, 0) })
	(&panel{Canvas: c, Plot: plot, limit: l.Limit, run: &l.Settled}).draw()
	plot.Left, plot.Right = plot.Left+panelWidth+28, plot.Right+panelWidth+28
	plot.Grid(c, "tick", 4, nil)
	(&panel{Canvas: c, Plot: plot, limit: l.Limit, run: &l.After, after: true}).draw()
	explainSettle(c, settleHeight-44)
	return c.SVG(), nil
}

func (p *panel) draw() {
	title, note := "Sluice: reserve, then settle",
		fmt.Sprintf("each request reserves %s tokens, until it has ended", thousands(p.run.Reservation))
	if p.after {
		title, note = "Counted after the response", "each request counts when it has ended"
	}
	p.Text("heading", p.Left, 92, "%s", title)
	p.Text("note", p.Left, 110, "%s", note)
	p.areas()
	p.Path("limit", "M%.1f %.1fH%.1f", p.Left, p.Y(float64(p.limit)), p.Right)
	p.verdict()
	if !p.after {
		p.remarks()
	}
	p.arrivals()
	for millis := 0.0; millis <= settleSpan; millis += 5000 {
		p.Text("tick middle", p.X(millis), groundY+18, "%.0f s", millis/1000)
	}
}

// areas draws the tokens of requests that have ended and, on them, those of requests
// that run. Redis knows nothing of the tokens counted afterwards while requests run; the provider
// will bill them.
func (p *panel) areas() {
	used := points(steps(p.run, true))
	if !p.after {
		running := points(p.run.Held)
		p.Path("room", "%s", p.Area(running))
		p.Path("admitted", "%s", p.Area(used))
		p.Path("held", "%s", p.Steps(running))
		return
	}
	running, limit := points(steps(p.run, false)), p.Y(float64(p.limit))
	p.Path("unseen", "%s", p.Area(running))
	p.Path("admitted", "%s", p.Area(used))
	// What is above the limit, once more in another colour.
	p.Add(`<clipPath id="above"><rect x="%.1f" y="%.1f" width="%d" height="%.1f"/></clipPath>`, p.Left, p.Top-20,
		panelWidth, limit-p.Top+20)
	p.Add(`<g clip-path="url(#above)">`)
	p.Path("over light", "%s", p.Area(running))
	p.Path("over", "%s", p.Area(used))
	p.Add("</g>")
}

func points(samples []ledger.Sample) (all []svg.Point) {
	for _, s := range samples {
		all = append(all, svg.Point{At: float64(s.At), Value: float64(s.Tokens)})
	}
	return all
}

// steps is how many tokens the requests use: from when they have ended, or from when
// they are sent.
func steps(r *ledger.Run, ended bool) (all []ledger.Sample) {
	for _, q := range r.Requests {
		if at := q.Sent; q.Admitted {
			if ended {
				at = q.Ended
			}
			all = append(all, ledger.Sample{At: at, Tokens: q.Used})
		}
	}
	slices.SortFunc(all, func(a, b ledger.Sample) int { return cmp.Compare(a.At, b.At) })
	for i := 1; i < len(all); i++ {
		all[i].Tokens += all[i-1].Tokens
	}
	return all
}

// verdict says at the right edge what was used in the end.
func (p *panel) verdict() {
	class := "sum end"
	if over := p.run.Used() - p.limit; over > 0 {
		class = "sum end bad"
		p.Text("note end bad", p.Right, 110, "%d %% too many", (100*over+p.limit/2)/p.limit)
	}
	p.Text(class, p.Right, 92, "%s used", thousands(p.run.Used()))
}

// remarks point at the reservation and at the settlement of the request that was admitted
// last.
func (p *panel) remarks() {
	p.Text("note end", p.Right, p.Y(float64(p.limit))-6, "limit")
	var last ledger.Request
	for _, q := range p.run.Requests {
		if q.Admitted {
			last = q
		}
	}
	const row = 1_900 // tokens
	p.remark(p.mostAround(last.Sent), p.limit+row, "admitted: reserves "+thousands(p.run.Reservation))
	p.remark(p.mostAround(last.Ended), p.limit+2*row, "ended: it used "+thousands(last.Used)+", the rest is free again")
}

// remark writes a text to the left of a line that leads down to a sample.
func (p *panel) remark(at ledger.Sample, row int64, text string) {
	x, y, foot := p.X(float64(at.At)), p.Y(float64(row)), p.Y(float64(at.Tokens))
	p.Path("ground", "M%.1f %.1fV%.1f", x, foot-4, y-9)
	p.Add(`<circle class="held" cx="%.1f" cy="%.1f" r="3.5"/>`, x, foot)
	p.Text("note end", x-7, y, "%s", text)
}

// mostAround is the most that Redis held around a time: after a reservation, before a
// settlement.
func (p *panel) mostAround(millis int64) (most ledger.Sample) {
	const around = 100
	for i, s := range p.run.Held {
		ends := int64(settleSpan)
		if i+1 < len(p.run.Held) {
			ends = p.run.Held[i+1].At
		}
		if s.At <= millis+around && ends >= millis-around && s.Tokens > most.Tokens {
			most = ledger.Sample{At: min(max(s.At, millis), ends), Tokens: s.Tokens}
		}
	}
	return most
}

// arrivals draws what became of each request when it came.
func (p *panel) arrivals() {
	p.Path("ground", "M%.1f %dH%.1f", p.Left, groundY, p.Right)
	stacked := map[int]int{}
	put := func(draw mark, millis int64) {
		column := int(float64(millis) * panelWidth / settleSpan / dot)
		draw(p.Canvas, p.Left+(float64(column)+0.5)*dot, groundY-dot*(float64(stacked[column])+0.5)-1)
		stacked[column]++
	}
	for _, wanted := range []bool{true, false} {
		for _, q := range p.run.Requests {
			switch {
			case q.Admitted != wanted:
			case wanted:
				put(admitted, q.Sent)
			default:
				put(rejected, q.Sent)
			}
		}
	}
	p.Text("note end", p.Right, groundY-dot*4, "%d admitted, %d rejected", p.run.Admitted(),
		len(p.run.Requests)-p.run.Admitted())
}

// explainSettle says what the colours are, in two rows.
func explainSettle(c *svg.Canvas, y float64) {
	c.Key("admitted", 74, y, "used by requests that have ended")
	c.Key("room", 308, y, "reserved by requests that run")
	c.Rect("unseen", 520, y-10, 14, 12)
	c.Key("over light", 538, y, "used by requests that run: Redis does not know")
	mark(admitted).explain(c, 76, y+22, "admitted when it came")
	mark(rejected).explain(c, 310, y+22, "rejected with 429")
}

func thousands(n int64) string { return svg.Grouped(float64(n), 0) }
