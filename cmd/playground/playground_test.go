package main

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/cockroachdb/datadriven"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/answer"
	"github.com/sluiceproxy/sluice/plugin/config"
)

// TestDecide holds what the exports rely on: no number of the page is used beyond its bounds.
func TestDecide(t *testing.T) {
	limit = [fields]float64{fieldAlgorithm: float64(algo.GCRA), fieldUnits: 1, fieldWindowMicros: 1e6, fieldBurst: 2}
	for i := range 4 {
		arrivals[2*i], arrivals[2*i+1] = 1e15+float64(i)*1e5, 1
	}
	testenv.Same(t, "that the limit is taken", decide(4), true)
	for i, want := range []float64{1, 1, 0, 0} {
		testenv.Same(t, fmt.Sprintf("request %d: allowed", i), decided[results*i+resultAllowed], want)
	}
	testenv.Same(t, "that more requests than there is room for are taken", decide(maxArrivals+1), false)
	limit[fieldUnits] = -1
	testenv.Same(t, "that a limit out of bounds is taken", decide(1), false)
	valid := [poolFields]float64{10, 10, 1, 1}
	for _, c := range []struct {
		name            string
		pool            [poolFields]float64
		ceiling, sender float64
		n               int32
	}{
		{"a pool below 0", [poolFields]float64{-1, 1, 0, 0}, 0, 0, 1},
		{"a guarantee below 0", [poolFields]float64{10, 10, -1, 1}, 0, 0, 1},
		{"a ceiling above 100", valid, 101, 0, 1},
		{"one more sender", valid, 0, senders, 1},
		{"a sender below 0", valid, 0, -1, 1},
		{"too many requests", valid, 0, 0, maxArrivals + 1},
		{"fewer than none", valid, 0, 0, -1},
	} {
		pool, ceilings = c.pool, [senders]float64{}
		for i := range ceilings {
			ceilings[i] = c.ceiling
		}
		arrivals[0], arrivals[1] = 1e15, c.sender
		testenv.Same(t, c.name+": taken", share(c.n), false)
	}
}

// TestPage plays testdata in the page, each file in one of its own:
//
//	eval     runs JavaScript, and prints its value as JSON
//	await    waits for a condition
//	focus    presses Tab until what a selector means has the focus
//	press    presses keys
//	pointer  presses, moves and releases: a selector, and two places in parts of it
//	scheme   has the system prefer light or dark
//	narrow   makes the page that of a telephone, so many pixels wide and high
func TestPage(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) != 3 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			b := open(t)
			datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
				text := strings.TrimSpace(d.Input)
				words := strings.Fields(text)
				switch d.Cmd {
				case "eval":
					return string(b.eval(text)) + "\n"
				case "await":
					b.await(text)
				case "focus":
					focused := fmt.Sprintf("Boolean(document.activeElement && document.activeElement.matches(%q))", text)
					for n := 0; string(b.eval(focused)) != "true"; n++ {
						if n == 80 {
							d.Fatalf(t, "the Tab key does not lead to %s", text)
						}
						b.do(chromedp.KeyEvent(kb.Tab))
					}
				case "press":
					for _, word := range words {
						if keys[word] == "" {
							d.Fatalf(t, "no key %s", word)
						}
						b.do(chromedp.KeyEvent(keys[word]))
					}
				case "pointer":
					var box struct{ X, Y, Width, Height float64 }
					bounds := fmt.Sprintf("document.querySelector(%q).getBoundingClientRect().toJSON()", words[0])
					testenv.OK(t, json.Unmarshal(b.eval(bounds), &box))
					for i, kind := range []input.DispatchMouseEventType{
						chromedp.MousePressed, chromedp.MouseMoved, chromedp.MouseReleased,
					} {
						var x, y float64
						if _, err := fmt.Sscanf(words[min(i+1, 2)], "%g,%g", &x, &y); err != nil {
							d.Fatalf(t, "%v", err)
						}
						b.do(chromedp.MouseEvent(kind, box.X+x*box.Width, box.Y+y*box.Height, chromedp.ButtonLeft,
							chromedp.ClickCount(1)))
					}
				case "scheme":
					media := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: text}}
					_, err := chromedp.Call(b, emulation.SetEmulatedMedia,
						emulation.SetEmulatedMediaParams{Features: media})
					testenv.OK(t, err)
				case "narrow":
					var width, height int64
					if _, err := fmt.Sscan(text, &width, &height); err != nil {
						d.Fatalf(t, "%v", err)
					}
					b.do(chromedp.EmulateViewport(width, height, chromedp.EmulateScale(2), chromedp.EmulateMobile))
				default:
					d.Fatalf(t, "no command %s", d.Cmd)
				}
				return ""
			})
		})
	}
}

// lane is the page's part about one algorithm.
type lane struct {
	Overflow  string
	Lasts     float64 // seconds that a request takes
	Decisions []struct {
		At        float64
		Allowed   bool
		Remaining int64
		Retry     float64
		Seconds   int64
	}
	Text string
	JSON string
}

const readLane = `(l => ({overflow: read(l.form).overflow, lasts: read(l.form).lasts, decisions: l.decisions,
	text: l.result.textContent, JSON: configuration(read(l.form))}))(lanes[0])`

// TestPageDecidesAsSluiceDoes compares what the page shows, for every algorithm,
// with what the Go twins decide by the configuration that it shows.
func TestPageDecidesAsSluiceDoes(t *testing.T) {
	t.Parallel()
	b := open(t)
	var variants []string
	for i, a := range algo.Algorithms() {
		variants = append(variants, fmt.Sprintf(`algorithm.value = %q; f.limit.value = f.burst.value = %d`, a, 5+i))
	}
	for _, variant := range append(
		variants,
		`algorithm.value = "token_bucket"; f.limit.value = 6; f.burst.value = 9; f.refill.value = "step"`,
		`refill.value = "continuous"; f.overflow.value = "queue"; f.max_wait.value = 3`,
		`algorithm.value = "gcra"; f.max_wait.value = 1.5`,
		`algorithm.value = "leaky_bucket"; f.overflow.value = "queue"`,
	) {
		var l lane
		text := b.eval(`{const f = lanes[0].form.elements; f.` + variant + `; update()}; ` + readLane)
		testenv.OK(t, json.Unmarshal(text, &l))
		cfg, err := config.Parse([]byte(l.JSON))
		if err != nil {
			t.Fatalf("%s: the configuration has mistakes: %v\n%s", variant, err, l.JSON)
		}
		limit := cfg.Rules[0].Limits[0]
		plan, err := algo.NewPlan([]algo.Limit{limit.Limit})
		testenv.OK(t, err)
		testenv.Within(t, variant+": requests", len(l.Decisions), 30, maxArrivals)
		states, out, admitted, last := make([]algo.State, 1), make([]algo.Decision, 1), 0, ""
		label := answer.NewLabel(&limit, false)
		answers := answer.New(&config.Config{Headers: config.Headers{Draft: true}}, 1)
		var holds []int64 // when each of those that hold a slot began
		for i, d := range l.Decisions {
			now := int64(1_800_000_000*1e6 + math.Round(d.At*1e6))
			for len(holds) > 0 && holds[0]+int64(l.Lasts*1e6) <= now {
				plan.RefundAs(holds[0], states, holds[0], now, []int64{1})
				holds = holds[1:]
			}
			plan.DecideAs(now, states, now, []int64{1}, out)
			shown := []answer.Limit{{Label: &label, Decision: out[0]}}
			headers := answers.Headers(shown, now, answer.Upstream{})
			if !out[0].Allowed {
				headers = answers.Refuse(&answer.Rejection{Limits: shown, AtMicros: now}).Headers
			} else if admitted++; limit.Algorithm == algo.Concurrency {
				holds = append(holds, now)
			}
			what := fmt.Sprintf("%s, request %d: ", variant, i)
			testenv.Same(t, what+"that it is allowed", d.Allowed, out[0].Allowed)
			testenv.Same(t, what+"what remains", d.Remaining, out[0].Remaining)
			last = headers[1][1]
			told := fmt.Sprintf(`%s;r=%d`, last[:strings.IndexByte(last, ';')], d.Remaining)
			if d.Seconds > 0 {
				told += fmt.Sprint(";t=", d.Seconds)
			}
			testenv.Same(t, what+"RateLimit", told, last)
			testenv.Within(t, what+"how far its wait is off", math.Abs(d.Retry*1e6-float64(out[0].RetryAfterMicros)), 0, 1)
			if t.Failed() {
				t.Fatalf("%sthe page has %+v, want %+v", what, d, out[0])
			}
		}
		want := fmt.Sprintf("%d of %d admitted", admitted, len(l.Decisions))
		if !strings.HasPrefix(l.Text, want) || !strings.Contains(l.Text, "RateLimit: "+last) {
			t.Errorf("%s: the page says %q, want %q and the last response's %s", variant, l.Text, want, last)
		}
		testenv.Same(t, variant+": that some are held", strings.Contains(l.Text, "held"), l.Overflow == "queue")
	}
}
