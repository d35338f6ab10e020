package main

import (
	"cmp"
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sluiceproxy/sluice/internal/ledger"
)

//go:embed settle.json
var settleRecord []byte

func recorded() (*ledger.Ledger, error) { return ledger.Unmarshal(settleRecord) }

// Lengths in pixels, of the picture of settlements.
const (
	settleWidth  = 920
	settleHeight = 560
	panelWidth   = 400
	panelTop     = 128 // of the plots
	panelBottom  = 388
	groundY      = 470 // below the dots
	dot          = 6.5 // between dots
	tokensTop    = 20_000
	settleSpan   = 13_500 // milliseconds
)

// panel is one way of counting: a plot of tokens over time, and what became of each
// request below it.
type panel struct {
	left  float64
	limit int64
	run   *ledger.Run
	after bool // counted when requests have ended
}

func (p *panel) x(millis int64) float64 {
	return p.left + panelWidth*float64(millis)/settleSpan
}

func tokensY(tokens int64) float64 {
	return panelBottom - (panelBottom-panelTop)*float64(tokens)/tokensTop
}

// drawSettle shows what the same requests of LLM clients do to a limit on tokens: with
// reservations that are settled, and counted when they have ended.
func drawSettle() ([]byte, error) {
	l, err := recorded()
	if err != nil {
		return nil, err
	}
	c := newCanvas(settleWidth, settleHeight, "Tokens that LLM clients use: reserved and settled, or counted afterwards")
	panels := []*panel{
		{left: 74, limit: l.Limit, run: &l.Settled},
		{left: 74 + panelWidth + 28, limit: l.Limit, run: &l.After, after: true},
	}
	c.text("title", 20, 34, fmt.Sprintf("The same %d streaming requests against %s tokens a minute",
		len(l.Settled.Requests), thousands(l.Limit)))
	c.text("note", 20, 54, "Recorded on Envoy and Redis. 24 requests come in the first second, then 5 a second. A "+
		"stream takes 1 to 4 s.")
	c.scaleOfTokens(panels)
	for _, p := range panels {
		c.panel(p)
	}
	c.settleLegend(settleHeight - 44)
	return c.finish(), nil
}

// scaleOfTokens draws the lines that both plots share.
func (c *canvas) scaleOfTokens(panels []*panel) {
	for tokens := int64(0); tokens <= tokensTop; tokens += 5_000 {
		c.add(`<text class="tick end" x="%d" y="%.1f">%s</text>`, 66, tokensY(tokens)+4, thousands(tokens))
		for _, p := range panels {
			c.add(`<path class="grid" d="M%.1f %.1fH%.1f"/>`, p.left, tokensY(tokens), p.left+panelWidth)
		}
	}
}

func (c *canvas) panel(p *panel) {
	title, note := "Sluice: reserve, then settle", fmt.Sprintf("each request reserves %s tokens, until it has ended",
		thousands(p.run.Reservation))
	if p.after {
		title, note = "Counted after the response", "each request counts when it has ended"
	}
	c.add(`<text class="heading" x="%.1f" y="92">%s</text>`, p.left, title)
	c.add(`<text class="note" x="%.1f" y="110">%s</text>`, p.left, note)
	c.areas(p)
	c.add(`<path class="limit" d="M%.1f %.1fH%.1f"/>`, p.left, tokensY(p.limit), p.left+panelWidth)
	c.verdict(p)
	if !p.after {
		c.remarks(p)
	}
	c.arrivals(p)
	for seconds := int64(0); seconds*1000 <= settleSpan; seconds += 5 {
		c.add(`<text class="tick middle" x="%.1f" y="%d">%d s</text>`, p.x(seconds*1000), groundY+18, seconds)
	}
}

// areas draws the tokens of requests that have ended and, on them, those of requests
// that run.
func (c *canvas) areas(p *panel) {
	used, running := steps(p.run, true), p.run.Held
	if p.after { // Redis knows nothing of what runs; it is what the provider will bill
		running = steps(p.run, false)
	}
	class := "room"
	if p.after {
		class = "unseen"
	}
	c.add(`<path class="%s" d="%s"/>`, class, p.area(running))
	c.add(`<path class="in" d="%s"/>`, p.area(used))
	if !p.after {
		c.add(`<path class="held" d="%s"/>`, p.line(running))
		return
	}
	// What is above the limit, once more in another colour.
	c.add(`<clipPath id="above"><rect x="%.1f" y="%d" width="%d" height="%.1f"/></clipPath>`, p.left, panelTop-20,
		panelWidth, tokensY(p.limit)-panelTop+20)
	c.add(`<path class="over light" clip-path="url(#above)" d="%s"/>`, p.area(running))
	c.add(`<path class="over" clip-path="url(#above)" d="%s"/>`, p.area(used))
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

// line is a path along samples, each of which holds until the next one.
func (p *panel) line(samples []ledger.Sample) string {
	var d strings.Builder
	fmt.Fprintf(&d, "M%.1f %d", p.left, panelBottom)
	for _, s := range samples {
		fmt.Fprintf(&d, "H%.1fV%.1f", p.x(s.At), tokensY(s.Tokens))
	}
	fmt.Fprintf(&d, "H%.1f", p.left+panelWidth)
	return d.String()
}

// area is what is below the line.
func (p *panel) area(samples []ledger.Sample) string {
	return p.line(samples) + fmt.Sprintf("V%dz", panelBottom)
}

// verdict says at the right edge what was used in the end.
func (c *canvas) verdict(p *panel) {
	over := p.run.Used() - p.limit
	class := "sum"
	if over > 0 {
		class = "sum bad"
		c.add(`<text class="note end bad" x="%.1f" y="110">%d %% too many</text>`, p.left+panelWidth,
			(100*over+p.limit/2)/p.limit)
	}
	c.add(`<text class="%s" x="%.1f" y="92">%s used</text>`, class, p.left+panelWidth, thousands(p.run.Used()))
}

// remarks point at the reservation and at the settlement of the request that was admitted
// last.
func (c *canvas) remarks(p *panel) {
	c.add(`<text class="note end" x="%.1f" y="%.1f">limit</text>`, p.left+panelWidth, tokensY(p.limit)-6)
	var last ledger.Request
	for _, q := range p.run.Requests {
		if q.Admitted {
			last = q
		}
	}
	const row = 1_900 // tokens
	c.remark(p, p.mostAround(last.Sent), p.limit+row, fmt.Sprintf("admitted: reserves %s", thousands(p.run.Reservation)))
	c.remark(p, p.mostAround(last.Ended), p.limit+2*row,
		fmt.Sprintf("ended: it used %s, the rest is free again", thousands(last.Used)))
}

// remark writes a text to the left of a line that leads down to a sample.
func (c *canvas) remark(p *panel, at ledger.Sample, row int64, text string) {
	x, y := p.x(at.At), tokensY(row)
	c.add(`<path class="ground" d="M%.1f %.1fV%.1f"/>`, x, tokensY(at.Tokens)-4, y-9)
	c.add(`<circle class="held" cx="%.1f" cy="%.1f" r="3.5"/>`, x, tokensY(at.Tokens))
	c.add(`<text class="note end" x="%.1f" y="%.1f">%s</text>`, x-7, y, text)
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
func (c *canvas) arrivals(p *panel) {
	c.add(`<path class="ground" d="M%.1f %dH%.1f"/>`, p.left, groundY, p.left+panelWidth)
	stacked := map[int]int{}
	put := func(draw mark, millis int64) {
		column := int(float64(millis) * panelWidth / settleSpan / dot)
		draw(c, p.left+(float64(column)+0.5)*dot, groundY-dot*(float64(stacked[column])+0.5)-1)
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
	c.add(`<text class="note end" x="%.1f" y="%.1f">%d admitted, %d rejected</text>`, p.left+panelWidth, groundY-dot*4,
		p.run.Admitted(), len(p.run.Requests)-p.run.Admitted())
}

// settleLegend says what the colours are, in two rows.
func (c *canvas) settleLegend(y int) {
	for _, entry := range []struct {
		class, text string
		x           int
	}{
		{"in", "used by requests that have ended", 74},
		{"room", "reserved by requests that run", 308},
		{"unseen", "", 520},
		{"over light", "used by requests that run: Redis does not know", 538},
	} {
		c.add(`<rect class="%s" x="%d" y="%d" width="14" height="12"/>`, entry.class, entry.x, y-10)
		c.text("note", entry.x+20, y, entry.text)
	}
	admitted(c, 81, float64(y)+18)
	c.text("note", 94, y+22, "admitted when it came")
	rejected(c, 315, float64(y)+18)
	c.text("note", 328, y+22, "rejected with 429")
}

// thousands writes a number with a comma between thousands.
func thousands(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
