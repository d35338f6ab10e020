package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/answer"
	"github.com/sluiceproxy/sluice/plugin/config"
)

// TestDecide holds what the exports rely on.
func TestDecide(t *testing.T) {
	limit = [fields]float64{fieldAlgorithm: float64(algo.GCRA), fieldUnits: 1, fieldWindowMicros: 1e6, fieldBurst: 2}
	for i := range 4 {
		arrivals[2*i], arrivals[2*i+1] = 1e15+float64(i)*1e5, 1
	}
	if !decide(4) {
		t.Fatal("the limit is refused")
	}
	for i, want := range []float64{1, 1, 0, 0} {
		if got := decided[results*i+resultAllowed]; got != want {
			t.Errorf("request %d: allowed %v, want %v", i, got, want)
		}
	}
	if decide(maxArrivals + 1) {
		t.Error("more requests than there is room for")
	}
	if limit[fieldUnits] = -1; decide(1) {
		t.Error("a limit out of bounds is accepted")
	}
}

// lane is the page's part about one algorithm.
type lane struct {
	Limit struct {
		Algorithm string
		Limit     int64
		Window    float64
		Burst     int64
		Lasts     float64
		Refill    string
		Overflow  string
		MaxWait   float64 `json:"max_wait"`
	}
	Decisions []struct {
		At        float64
		Allowed   bool
		Remaining int64
		Retry     float64
		Delay     float64
		Seconds   int64
	}
	Text string
	JSON string
}

const readLanes = `lanes.map(l => ({limit: read(l.form), decisions: l.decisions, text: l.result.textContent, JSON: ` +
	`configuration(read(l.form))}))`

// TestPageDecidesAsSluiceDoes compares what the page shows, for every algorithm,
// with the Go twins.
func TestPageDecidesAsSluiceDoes(t *testing.T) {
	t.Parallel()
	b := open(t)
	for i, a := range algo.Algorithms() {
		name := a.String()
		b.eval(fmt.Sprintf(`lanes[0].form.elements.algorithm.value = %q; lanes[0].form.elements.limit.value = %d; `+
			`lanes[0].form.elements.burst.value = %[2]d; update()`, name, 5+i), nil)
		var lanes []lane
		b.eval(readLanes, &lanes)
		compare(t, &lanes[0])
	}
	for _, variant := range []string{
		`algorithm.value = "token_bucket"; f.refill.value = "step"`,
		`refill.value = "continuous"; f.overflow.value = "queue"; f.max_wait.value = 3`,
		`algorithm.value = "gcra"; f.max_wait.value = 1.5`,
	} {
		b.eval(`{const f = lanes[0].form.elements; f.limit.value = 6; f.burst.value = 9; f.`+variant+`; update()}`, nil)
		var lanes []lane
		b.eval(readLanes, &lanes)
		compare(t, &lanes[0])
	}
	b.eval(`lanes[0].form.elements.algorithm.value = "leaky_bucket"; lanes[0].form.elements.overflow.value = "queue"; `+
		`update()`, nil)
	var text string
	b.eval(`lanes[0].result.textContent`, &text)
	if !strings.Contains(text, "held") {
		t.Errorf("a queue: %q, want some that are held", text)
	}
	b.clean()
}

// compare replays a lane's arrivals.
func compare(t *testing.T, l *lane) {
	t.Helper()
	a, _ := algo.ParseAlgorithm(l.Limit.Algorithm)
	limit := algo.Limit{Algorithm: a, Units: l.Limit.Limit, WindowMicros: int64(l.Limit.Window * 1e6)}
	if a.HasBurst() {
		limit.Burst = l.Limit.Burst
	}
	limit.Steps = l.Limit.Refill == "step"
	if limit.Queue = l.Limit.Overflow == "queue"; limit.Queue {
		limit.MaxDelayMicros = int64(l.Limit.MaxWait * 1e6)
	}
	if a == algo.Concurrency {
		limit.WindowMicros, limit.TTLMicros = 0, algo.MaxTTLMicros
	}
	plan, err := algo.NewPlan([]algo.Limit{limit})
	if err != nil {
		t.Fatal(err)
	}
	if len(l.Decisions) < 30 {
		t.Errorf("%s: only %d requests", l.Limit.Algorithm, len(l.Decisions))
	}
	states, out, admitted, last := make([]algo.State, 1), make([]algo.Decision, 1), 0, ""
	label := answer.NewLabel(&config.Limit{Limit: limit, Name: "per-address"}, false)
	draft := &config.Config{Headers: config.Headers{Draft: true}}
	var holds []int64 // when each of those that hold a slot began
	for i, d := range l.Decisions {
		now := int64(1_800_000_000*1e6 + math.Round(d.At*1e6))
		for len(holds) > 0 && holds[0]+int64(l.Limit.Lasts*1e6) <= now {
			plan.RefundAs(holds[0], states, holds[0], now, []int64{1})
			holds = holds[1:]
		}
		plan.DecideAs(now, states, now, []int64{1}, out)
		if out[0].Allowed {
			admitted++
			if a == algo.Concurrency {
				holds = append(holds, now)
			}
		}
		what := fmt.Sprintf("%s, request %d: ", l.Limit.Algorithm, i)
		testenv.Same(t, what+"that it is allowed", d.Allowed, out[0].Allowed)
		testenv.Same(t, what+"what remains", d.Remaining, out[0].Remaining)
		shown := []answer.Limit{{Label: &label, Decision: out[0]}}
		headers := answer.New(draft, 1).Headers(shown, now, answer.Upstream{})
		if !out[0].Allowed {
			headers = answer.New(draft, 1).Refuse(&answer.Rejection{Limits: shown, AtMicros: now}).Headers
		}
		last = headers[1][1]
		told := fmt.Sprintf(`"per-address";r=%d`, d.Remaining)
		if d.Seconds > 0 {
			told += fmt.Sprint(";t=", d.Seconds)
		}
		testenv.Same(t, what+"RateLimit", told, last)
		testenv.Within(t, what+"how far its wait is off", math.Abs(d.Retry*1e6-float64(out[0].RetryAfterMicros)), 0, 1)
		if t.Failed() {
			t.Fatalf("%sthe page has %+v, want %+v", what, d, out[0])
		}
	}
	if want := fmt.Sprintf("%d of %d admitted", admitted, len(l.Decisions)); !strings.HasPrefix(l.Text, want) {
		t.Errorf("%s: the page says %q, want %q", l.Limit.Algorithm, l.Text, want)
	}
	if !strings.Contains(l.Text, "RateLimit: "+last) {
		t.Errorf("%s: the page says %q, want the last response's %s", l.Limit.Algorithm, l.Text, last)
	}
	cfg, err := config.Parse([]byte(l.JSON))
	if err != nil {
		t.Fatalf("%s: its configuration has mistakes: %v\n%s", l.Limit.Algorithm, err, l.JSON)
	}
	got := cfg.Rules[0].Limits[0].Limit
	testenv.Same(t, "the configuration's algorithm", got.Algorithm, a)
	testenv.Same(t, "its limit", got.Units, limit.Units)
	testenv.Same(t, "its window", got.WindowMicros, limit.WindowMicros)
	testenv.Same(t, "its capacity", got.Capacity(), limit.Capacity())
}

// clean holds that the page had no errors and asked for nothing but its files.
func (b *browser) clean() {
	b.t.Helper()
	for _, problem := range b.problems {
		b.t.Errorf("the page: %s", problem)
	}
	for _, address := range b.requested {
		if scheme, _, _ := strings.Cut(address, ":"); !slices.Contains([]string{"file", "about", "blob"}, scheme) {
			b.t.Errorf("the page asked for %s", address)
		}
	}
	if len(b.requested) < 5 {
		b.t.Errorf("the page asked for %d files, want its own five", len(b.requested))
	}
}

// TestKeyboard does with keys alone what a pointer can do.
func TestKeyboard(t *testing.T) {
	t.Parallel()
	b := open(t)
	number := func(script string) (n int) {
		b.eval(script, &n)
		return n
	}
	b.focus("#traffic")
	before := number("arrivals().length")
	b.press("Home", "ArrowRight", "ArrowUp", "ArrowUp", "ArrowUp")
	if got := number("arrivals().length"); got != before+3 {
		t.Errorf("%d requests after three times up, want %d", got, before+3)
	}
	var said string
	if b.eval(`$("traffic").getAttribute("aria-valuetext")`, &said); said != "at 0.2 seconds: 3 requests" {
		t.Errorf("a screen reader says %q", said)
	}
	b.press("ArrowDown")
	if got := number("arrivals().length"); got != before+2 {
		t.Errorf("%d requests after once down, want %d", got, before+2)
	}
	b.focus("#add")
	b.press("Enter")
	if got := number("lanes.length"); got != 3 {
		t.Errorf("%d algorithms after Enter on the button, want 3", got)
	}
	b.focus("[name=remove]")
	b.press("Enter")
	if got := number("lanes.length"); got != 2 {
		t.Errorf("%d algorithms after one was removed, want 2", got)
	}
	b.eval(`$("add").click(); $("add").click(); $("add").click()`, nil)
	if got := number("lanes.length"); got != 4 {
		t.Errorf("%d algorithms, want 4 at most", got)
	}
	b.focus("#copy")
	b.press("Enter")
	b.await(`$("copied").textContent === "Copied."`)
	if unnamed := number(`[...document.querySelectorAll("input, select, button, canvas")].filter(e => ` +
		`e.checkVisibility()).filter(e => !(e.labels && e.labels.length || e.textContent.trim() || ` +
		`e.getAttribute("aria-label") || e.getAttribute("aria-labelledby"))).length`); unnamed > 0 {
		t.Errorf("%d controls have no name", unnamed)
	}
	b.clean()
}

// TestPointer draws with the pointer.
func TestPointer(t *testing.T) {
	t.Parallel()
	b := open(t)
	b.eval(`setShape("nothing")`, nil)
	var box struct{ X, Y, Width, Height float64 }
	b.eval(`(() => { const r = $("traffic").getBoundingClientRect(); return {X: r.x, Y: r.y, Width: r.width, Height: `+
		`r.height}; })()`, &box)
	mouse := func(kind string, x, y float64) {
		b.call("Input.dispatchMouseEvent", map[string]any{
			"type": kind, "x": box.X + x*box.Width, "y": box.Y + y*box.Height, "button": "left", "buttons": 1, "clickCount": 1,
		})
	}
	mouse("mousePressed", 0.1, 0.4)
	mouse("mouseMoved", 0.3, 0.2)
	mouse("mouseReleased", 0.3, 0.2)
	var drawn int
	if b.eval("traffic.filter(n => n > 3).length", &drawn); drawn < 2 {
		t.Errorf("%d parts were drawn, want 2", drawn)
	}
	b.clean()
}

// TestColours holds that text can be read in both schemes.
func TestColours(t *testing.T) {
	t.Parallel()
	b := open(t)
	pages := map[string]bool{}
	for _, c := range []struct{ name, system, chosen string }{
		{"light", "light", ""}, {"dark", "dark", ""}, {"dark, chosen", "light", "dark"}, {"light, chosen", "dark", "light"},
	} {
		b.call("Emulation.setEmulatedMedia",
			map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": c.system}}})
		b.eval(fmt.Sprintf(`document.documentElement.dataset.theme = %q; redraw()`, c.chosen), nil)
		var seen struct {
			Page, Text, Note, Rejected, Admitted, Link string
		}
		b.eval(`(() => { const s = getComputedStyle(document.documentElement), v = n => s.getPropertyValue(n).trim();
			return {Page: v("--page"), Text: v("--text"), Note: v("--note"),
				Rejected: v("--rejected"), Admitted: v("--admitted"), Link: v("--link")}; })()`, &seen)
		pages[seen.Page] = true
		b.picture(c.name)
		for name, colour := range map[string]string{
			"text": seen.Text, "notes": seen.Note, "rejected": seen.Rejected,
			"admitted": seen.Admitted, "links": seen.Link,
		} {
			if ratio := contrast(t, colour, seen.Page); ratio < 4.5 {
				t.Errorf("%s: %s has a contrast of %.1f, want 4.5", c.name, name, ratio)
			}
		}
	}
	if len(pages) != 2 {
		t.Errorf("%d different pages, want a light and a dark one", len(pages))
	}
}

// contrast is the ratio of two colours, "#rrggbb" (WCAG 2.2, 1.4.3).
func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	high, low := luminance(t, a), luminance(t, b)
	if high < low {
		high, low = low, high
	}
	return (high + 0.05) / (low + 0.05)
}

func luminance(t *testing.T, colour string) float64 {
	t.Helper()
	var rgb [3]int
	if _, err := fmt.Sscanf(colour, "#%02x%02x%02x", &rgb[0], &rgb[1], &rgb[2]); err != nil {
		t.Fatalf("%q: %v", colour, err)
	}
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		v := float64(rgb[i]) / 255
		if v <= 0.04045 {
			v /= 12.92
		} else {
			v = math.Pow((v+0.055)/1.055, 2.4)
		}
		sum += weight * v
	}
	return sum
}
