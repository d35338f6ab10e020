package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/envoyconf"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestSetups sees that every configuration can be made; that Envoy takes it is
// for "make bench".
func TestSetups(t *testing.T) {
	t.Parallel()
	all := append(choose(func(*setup) bool { return true }), beside("/build/sluice-before.wasm")...)
	for _, s := range all {
		t.Run(s.ID, func(t *testing.T) {
			t.Parallel()
			at := place{
				listener: 1001, admin: 1002, upstream: 1003, redis: 1004, service: 1005, timeout: 50 * time.Millisecond,
				root: "..",
			}
			c, err := s.config(at)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.YAML(); err != nil {
				t.Error(err)
			}
			file, _ := c.Get(envoyconf.Limiter + "/vm_config/code/local/filename").(string)
			if hasSluice := file != "" && !strings.HasSuffix(file, "/empty.wasm"); hasSluice != strings.HasPrefix(s.ID, sluice) {
				t.Errorf("the filter is %q", file)
			}
			if !strings.HasPrefix(s.ID, sluice) {
				return
			}
			if text, _ := c.Get(envoyconf.Limiter + "/configuration/value").(string); !json.Valid([]byte(text)) {
				t.Errorf("plugin configuration %q", text)
			}
		})
	}
}

func TestSpread(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		values []float64
		want   spread
		text   string
	}{
		{[]float64{3}, spread{3, 3, 3}, "3.0 (3.0-3.0)"},
		{[]float64{5, 1, 3}, spread{3, 1, 5}, "3.0 (1.0-5.0)"},
		{[]float64{4, 1, 2, 8}, spread{3, 1, 8}, "3.0 (1.0-8.0)"},
	} {
		if got := spreadOf(test.values); got != test.want || got.Text(1) != test.text {
			t.Errorf("%v: %v, %q; want %v, %q", test.values, got, got.Text(1), test.want, test.text)
		}
	}
}

// TestCompare: a ratio is that of the medians, and its interval that of rounds drawn anew.
func TestCompare(t *testing.T) {
	t.Parallel()
	same := []float64{2, 2, 2, 2}
	testenv.Same(t, "a ratio without noise", compare(quotient, same, []float64{4, 4, 4, 4}), spread{0.5, 0.5, 0.5})
	// Both setups are slow in the same rounds: the ratio does not waver.
	a, b := []float64{10, 20, 30, 40, 50, 60, 70}, []float64{5, 10, 15, 20, 25, 30, 35}
	testenv.Same(t, "rounds are drawn together", compare(quotient, a, b), spread{2, 2, 2})
	got := compare(func(m []float64) float64 { return m[0] }, a)
	testenv.Same(t, "the median", got.Median, 40)
	// Of seven rounds in order, the 95 % interval of the median leaves out the least and the most.
	testenv.Within(t, "its lower end", got.Min, 15, 30)
	testenv.Within(t, "its upper end", got.Max, 50, 65)
	testenv.Same(t, "what was not measured", compare(quotient, a, nil).Text(1), "-")
}

// example is a report whose figures follow from the setups' order.
func example() *report {
	r := &report{Rounds: 2, Seconds: 1, Setups: setups(), Results: results{}}
	for i, s := range r.Setups {
		for round := range 2 {
			n := float64(i + 1 + round)
			r.Results[s.ID] = append(r.Results[s.ID], &sample{
				RequestsPerSecond: 10000 / n, CPUMicros: cost{Envoy: 10 * n, Service: n, Redis: 2 * n},
			})
		}
	}
	return r
}

func TestComparisons(t *testing.T) {
	t.Parallel()
	r := example()
	// Without a limiter Envoy takes 10 and 20 us in the two rounds; the second
	// setup 20+2+4 and 30+3+6, the sixth 60+6+12 and 70+7+14.
	testenv.Same(t, "CPU per check", r.Check(sluice), spread{17.5, 16, 19})
	testenv.Same(t, "requests/s", r.Ratio(sluice, unlimited).Text(3), "0.556 (0.500-0.667)")
	if got := r.FasterPair(); got != pair {
		t.Errorf("the faster pair is %s", got)
	}
}

// TestTroubles: the table says where not every request was decided.
func TestTroubles(t *testing.T) {
	t.Parallel()
	r := example()
	r.Results[sluice][1].Undecided = 7
	const want = "\n- Sluice, Redis: 7 checks failed or timed out, 0 answers were not 200\n"
	if text := show("run", r); !strings.Contains(text, want) {
		t.Errorf("no %q in\n%s", want, text)
	}
}

// TestChart leaves out what was not measured, as results of another time may lack it.
func TestChart(t *testing.T) {
	t.Parallel()
	r := example()
	delete(r.Results, leased)
	texts := testenv.WellFormed(t, "the chart", []byte(r.chart()))
	testenv.Same(t, "a text", texts["4,167, 5.6 ×"], true)
	testenv.Same(t, "what was not measured", texts["Sluice, with a lease"], false)
}

// TestBeside: two builds are held against each other, without any peer.
func TestBeside(t *testing.T) {
	t.Parallel()
	r := &report{Rounds: 1, Seconds: 1, Results: results{}}
	r.Setups = beside("/before.wasm")
	for i, s := range r.Setups {
		r.Results[s.ID] = []*sample{{
			RequestsPerSecond: float64(100 + 10*i), CPUMicros: cost{Envoy: float64(10 - i), Redis: 1},
		}}
	}
	const want = "| Sluice, Redis | 110 (110-110) | 1.10 (1.10-1.10) | 0.85 (0.85-0.85) |"
	if text := show("run", r); !strings.Contains(text, want) {
		t.Errorf("no %q in\n%s", want, text)
	}
}
