package simulate

import (
	"bytes"
	_ "embed" // the page
	"fmt"
	"html/template"
	"maps"
	"slices"

	"github.com/sluiceproxy/sluice/cmd/sluice/explain"
	"github.com/sluiceproxy/sluice/internal/svg"
	"github.com/sluiceproxy/sluice/plugin/answer"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/metric"
)

// Report is the result of a simulation, as -o json prints it.
type Report struct {
	Seconds  float64 `json:"seconds"`
	Envoys   int     `json:"envoys"`
	Workers  int     `json:"workers"` // of each Envoy
	Requests int64   `json:"requests"`
	Retries  int64   `json:"retries"` // of these requests

	Admitted  int64 `json:"admitted"` // those that Redis did not decide included
	Rejected  int64 `json:"rejected"` // 429
	Refused   int64 `json:"refused"`  // 503
	Undecided int64 `json:"undecided"`
	Over      int64 `json:"over"`  // over a limit, and admitted
	Local     int64 `json:"local"` // decided by the embedded store in place of Redis

	WaitP50Micros int64 `json:"wait_p50_micros"` // for Redis
	WaitP99Micros int64 `json:"wait_p99_micros"`

	Groups []GroupReport `json:"clients"`
	Rules  []RuleReport  `json:"rules"`
	Redis  *RedisReport  `json:"redis,omitempty"` // absent without Redis
	Log    []LogLine     `json:"log"`
	Chart  []Bucket      `json:"chart"` // of parts of the time that are equally long
}

// LogLine is a line that the plugin would log, and how often.
type LogLine struct {
	Text  string `json:"text"`
	Times int64  `json:"times"`
}

// GroupReport is the result of one group's requests.
type GroupReport struct {
	Name     string `json:"name"`
	Requests int64  `json:"requests"`
	Retries  int64  `json:"retries"`
	Admitted int64  `json:"admitted"`
	Rejected int64  `json:"rejected"`
	Refused  int64  `json:"refused"`
}

// RuleReport is the result of one rule.
type RuleReport struct {
	Rule     string        `json:"rule"`
	Mode     string        `json:"mode"`
	Checked  int64         `json:"checked"`
	Admitted int64         `json:"admitted"`
	Rejected int64         `json:"rejected"`
	Shadow   int64         `json:"shadow_rejected"`
	Over     int64         `json:"over"` // that the rule rejected, and that went on
	Limits   []LimitReport `json:"limits"`
	// Why it applied to no request; empty if it did.
	Why string `json:"why,omitempty"`
}

// LimitReport is one limit, and the most that an identity was admitted.
type LimitReport struct {
	explain.Limit

	MostInWindow int64 `json:"most_in_window"` // units within any stretch of the window's length

	window int64
	recent map[string]*recent // by identity
}

// RedisReport is the work of Redis.
type RedisReport struct {
	Commands          int64   `json:"commands"`
	CommandsASecond   float64 `json:"commands_a_second"`
	CommandsARequest  float64 `json:"commands_a_request"`
	BytesASecond      float64 `json:"bytes_a_second"` // to Redis
	Cores             float64 `json:"cores"`          // that are busy, from what was measured
	Shards            int     `json:"shards"`
	Keys              int     `json:"keys"`      // at the end
	KeyBytes          int64   `json:"key_bytes"` // from what was measured
	Connections       int     `json:"connections"`
	Failures          int64   `json:"failures"` // checks that it did not decide
	BreakerOpenings   int64   `json:"breaker_openings"`
	DenyCacheHits     int64   `json:"deny_cache_hits"`
	Refunds           int64   `json:"refunds"`
	LeaseUnitsTaken   int64   `json:"lease_units_taken"`
	LeaseUnitsGivenUp int64   `json:"lease_units_returned"`
}

// Bucket is one part of the time.
type Bucket struct {
	Admitted  int64 `json:"admitted"`
	Undecided int64 `json:"undecided"` // admitted, but not by a decision
	Rejected  int64 `json:"rejected"`
	Refused   int64 `json:"refused"`
}

func (t *tally) report() *Report {
	w := t.world
	t.Seconds, t.Envoys, t.Workers = float64(w.end-epochMicros)/1e6, w.options.Envoys, w.options.Workers
	t.Over, t.Local = t.outcomes[answer.Over], t.outcomes[answer.LocalAllowed]+t.outcomes[answer.LocalLimited]
	for _, b := range t.Chart {
		t.Undecided, t.Rejected, t.Refused = t.Undecided+b.Undecided, t.Rejected+b.Rejected, t.Refused+b.Refused
		t.Admitted += b.Admitted + b.Undecided
	}
	t.WaitP50Micros, t.WaitP99Micros = t.percentile(0.5), t.percentile(0.99)
	t.Log = []LogLine{}
	for _, text := range slices.Sorted(maps.Keys(t.lines)) {
		t.Log = append(t.Log, LogLine{text, t.lines[text]})
	}
	for _, i := range slices.Sorted(maps.Keys(t.groups)) {
		t.Groups = append(t.Groups, *t.groups[i])
	}
	var idle []string // rules that applied to no request
	for _, r := range w.rules.Rules {
		if !r.Exempt && t.rules[r.Name].Checked == 0 {
			idle = append(idle, r.Name)
		}
	}
	reasons := whyNot(w.cfg, idle, t.samples)
	for _, rule := range w.rules.Rules {
		of := t.rules[rule.Name]
		of.Why = reasons[rule.Name]
		t.Rules = append(t.Rules, *of)
	}
	if w.cfg.Redis == nil {
		return &t.Report
	}
	s := w.server
	t.Redis = &s.RedisReport
	s.CommandsASecond = float64(s.Commands) / t.Seconds
	s.CommandsARequest = float64(s.Commands) / float64(max(1, t.Requests))
	s.BytesASecond = float64(s.received) / t.Seconds
	s.Cores = float64(s.busyNanos) / 1e9 / t.Seconds
	s.Shards, s.Connections = len(s.freeNanos), len(w.workers)
	s.BreakerOpenings, s.DenyCacheHits = t.events[metric.BreakerOpened], t.events[metric.DenyCacheHit]
	s.Refunds, s.LeaseUnitsTaken = t.events[metric.ChargeRefunded], t.events[metric.UnitsTaken]
	s.LeaseUnitsGivenUp = t.events[metric.UnitsReturned]
	return &t.Report
}

// maxSamples bounds how many requests are asked why a rule applied to none of them.
const maxSamples = 50

// whyNot says why rules apply to none of some requests: by their names, the reason that most of the
// requests have.
func whyNot(cfg *config.Config, names []string, samples []*explain.Request) map[string]string {
	reasons := map[string]string{}
	if len(names) == 0 {
		return reasons
	}
	times := map[[2]string]int{} // by rule and reason
	for _, request := range samples {
		rules, err := explain.Explain(cfg, request)
		if err != nil {
			continue // what compiled before compiles again
		}
		for i := range rules {
			name, why := rules[i].Rule, rules[i].Why
			if !slices.Contains(names, name) {
				continue
			}
			if rules[i].Applies {
				why = "its tier is unlimited"
			}
			times[[2]string{name, why}]++
			if times[[2]string{name, why}] > times[[2]string{name, reasons[name]}] {
				reasons[name] = why
			}
		}
	}
	return reasons
}

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
	// The requests a second up to and with each layer, and the most of all.
	length, most, stacks := r.Seconds/float64(len(r.Chart)), 0.0, make([][]svg.Point, len(layers))
	for i := range r.Chart {
		sum := int64(0)
		for j, l := range layers {
			sum += l.of(&r.Chart[i])
			stacks[j] = append(stacks[j], svg.Point{At: length * float64(i), Value: float64(sum) / length})
		}
		most = max(most, float64(sum)/length)
	}
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

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// HTML is a page with the picture and tables, each with its heads first.
func (r *Report) HTML(tables [][][]string) ([]byte, error) {
	var out bytes.Buffer
	err := page.Execute(&out, map[string]any{"Picture": template.HTML(r.SVG()), "Tables": tables})
	return out.Bytes(), err
}
