package svg_test

import (
	"testing"

	"github.com/sluiceproxy/sluice/internal/svg"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

func TestGrouped(t *testing.T) {
	t.Parallel()
	for want, value := range map[string]float64{
		"0": 0, "999": 999, "1,000": 1000, "12,345,678": 12345678, "-100": -100,
		"-1,000": -1000,
	} {
		testenv.Same(t, want, svg.Grouped(value, 0), want)
	}
	testenv.Same(t, "with a decimal", svg.Grouped(1234.56, 1), "1,234.6")
}

func TestRound(t *testing.T) {
	t.Parallel()
	for value, want := range map[float64]float64{
		0: 1, -3: 1, 0.3: 0.4, 1: 1, 1.1: 2, 4.5: 5, 81: 100, 1000: 1000,
		1001: 2000,
	} {
		testenv.Same(t, "the end of an axis", svg.Round(value), want)
	}
}

func TestPlot(t *testing.T) {
	t.Parallel()
	p := svg.Plot{Left: 10, Right: 110, Top: 20, Ground: 70, From: 5, To: 15, Most: 2}
	testenv.Same(t, "the left edge", p.X(5), 10)
	testenv.Same(t, "the middle", p.X(10), 60)
	testenv.Same(t, "the ground", p.Y(0), 70)
	testenv.Same(t, "the top", p.Y(2), 20)
	steps := []svg.Point{{At: 5, Value: 1}, {At: 7, Value: 1}, {At: 10, Value: 2}}
	testenv.Same(t, "steps", p.Steps(steps), "M10.0 70.0H10.0V45.0H60.0V20.0H110.0")
	testenv.Same(t, "an area", p.Area(steps), "M10.0 70.0H10.0V45.0H60.0V20.0H110.0V70.0z")
}

func TestCanvas(t *testing.T) {
	t.Parallel()
	c := svg.New(100, 50, "a <title>")
	c.Text("note", 1, 2, "%d < %d", 3, 4)
	c.Rect("page", 1, 2, 3, 4)
	c.Path("grid", "M%dh%d", 5, 6)
	c.Key("admitted", 7, 8, "a & b")
	(&svg.Plot{Right: 9, Ground: 9, Most: 2}).Grid(c, "tick", 2, func(v float64) string { return svg.Grouped(v, 1) })
	texts := testenv.WellFormed(t, "the picture", c.SVG())
	for _, want := range []string{"a <title>", "3 < 4", "a & b", "0.0", "1.0", "2.0"} {
		if !texts[want] {
			t.Errorf("no text %q", want)
		}
	}
}
