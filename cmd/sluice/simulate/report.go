package simulate

import (
	"bytes"
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
	t.Undecided = t.outcomes[answer.FailedAllow]
	t.Over = t.outcomes[answer.Over]
	t.Rejected = t.outcomes[answer.Limited] + t.outcomes[answer.LocalLimited] + t.outcomes[answer.Blocked]
	t.Refused = t.outcomes[answer.FailedDeny]
	t.Local = t.outcomes[answer.LocalAllowed] + t.outcomes[answer.LocalLimited]
	t.WaitP50Micros, t.WaitP99Micros = t.percentile(0.5), t.percentile(0.99)
	t.Log = []LogLine{}
	for _, text := range slices.Sorted(maps.Keys(t.lines)) {
		t.Log = append(t.Log, LogLine{text, t.lines[text]})
	}
	for _, b := range t.Chart {
		t.Admitted += b.Admitted + b.Undecided
	}
	for _, i := range slices.Sorted(maps.Keys(t.groups)) {
		t.Groups = append(t.Groups, *t.groups[i])
	}
	var idle []string // rules that applied to no request
	for _, r := range t.world.rules.Rules {
		if !r.Exempt && t.rules[r.Name].Checked == 0 {
			idle = append(idle, r.Name)
		}
	}
	reasons := whyNot(t.world.cfg, idle, t.samples)
	for _, rule := range w.rules.Rules {
		of := t.rules[rule.Name]
		of.Why = reasons[rule.Name]
		for _, l := range of.limits {
			of.Limits = append(of.Limits, l.report)
		}
		t.Rules = append(t.Rules, of.RuleReport)
	}
	if w.cfg.Redis == nil {
		t.Redis = nil
		return &t.Report
	}
	r, s := t.Redis, w.server
	r.Commands = s.commands
	r.CommandsASecond = float64(s.commands) / t.Seconds
	r.CommandsARequest = float64(s.commands) / float64(max(1, t.Requests))
	r.BytesASecond = float64(s.received) / t.Seconds
	r.Cores = float64(s.busyNanos) / 1e9 / t.Seconds
	r.Shards = len(s.freeNanos)
	r.Connections = len(w.workers)
	r.BreakerOpenings = t.events[metric.BreakerOpened]
	r.DenyCacheHits = t.events[metric.DenyCacheHit]
	r.Refunds = t.events[metric.ChargeRefunded]
	r.LeaseUnitsTaken = t.events[metric.UnitsTaken]
	r.LeaseUnitsGivenUp = t.events[metric.UnitsReturned]
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
