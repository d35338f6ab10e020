package main

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
)

// report is the result of a benchmark.
type report struct {
	Machine machine `json:"machine"`
	Command string  `json:"command"`
	Rounds  int     `json:"rounds"`
	Seconds int     `json:"seconds"` // of one measurement
	Rate    int     `json:"open_loop_requests_per_second"`
	Goals   []goal  `json:"goals"`
	Results results `json:"results"` // by setup and load
	// Repeated is how many measurements others disturbed, of a run that was to be published.
	Repeated int `json:"repeated,omitempty"`

	setups []*setup
}

func (r *report) json() (string, error) {
	text, err := json.MarshalIndent(r, "", " ")
	return string(text) + "\n", err
}

// markdown has the tables, and the goals of whoever changes the code.
func (r *report) markdown() string { return r.tables() + r.goalTable() }

// tables are what a run has measured.
func (r *report) tables() string {
	var b strings.Builder
	r.writeHead(&b)
	r.writeThroughput(&b)
	r.writeLatency(&b)
	r.writeCosts(&b)
	r.writeTrouble(&b)
	return b.String()
}

func (r *report) writeHead(b *strings.Builder) {
	m := r.Machine
	fmt.Fprintf(b, "`%s`, %s, commit %s: %d cores of %s, Linux %s, Envoy %s with one worker, Redis %s, "+
		"envoyproxy/ratelimit %s.\n",
		r.Command, m.Date, m.Commit, m.Cores, m.CPU, m.Kernel, m.Envoy, m.Redis, m.Peer)
	fmt.Fprintf(b, "Load average before: %s; other processes used %s cores meanwhile, the hypervisor took %s %%. ",
		m.LoadAverage, spreadOf(r.each(foreign)).text(2), spreadOf(r.each(stolenPercent)).text(1))
	if r.Repeated > 0 {
		fmt.Fprintf(b, "%d measurements were disturbed, and made again. ", r.Repeated)
	}
	fmt.Fprintf(b, "Medians of %d rounds of %d s, in parentheses the least and the most. A ratio or a difference is that "+
		"of the medians, in parentheses the interval that holds it with 95 %% probability (bootstrap over the rounds).\n",
		r.Rounds, r.Seconds)
}

// each is a quantity of every sample.
func (r *report) each(q quantity) (all []float64) {
	for _, loads := range r.Results {
		for _, samples := range loads {
			for _, s := range samples {
				all = append(all, q(s))
			}
		}
	}
	return all
}

// table writes a Markdown table: a row for each setup, a column for each head.
func table(b *strings.Builder, setups []*setup, title string, heads []string, cells func(*setup) []string) {
	fmt.Fprintf(b, "\n%s\n\n| | %s |\n|---|%s\n", title, strings.Join(heads, " | "), strings.Repeat("---:|", len(heads)))
	for _, s := range setups {
		fmt.Fprintf(b, "| %s | %s |\n", s.title, strings.Join(cells(s), " | "))
	}
}

func (r *report) writeThroughput(b *strings.Builder) {
	heads := []string{"16 connections", "64", "at 16: ÷ no limiter", "÷ the pair"}
	pair := r.Results.fasterPair(mainLoad)
	table(b, r.setups, "Requests/s, closed loop:", heads, func(s *setup) []string {
		var cells []string
		for _, l := range closedLoads {
			cells = append(cells, r.Results.spread(s.id, l.id, requestsPerSecond).text(0))
		}
		for _, to := range []string{unlimited, pair} {
			cells = append(cells, r.Results.ratio(s.id, to, mainLoad, requestsPerSecond).text(2))
		}
		return cells
	})
	if len(r.Results[pair]) == 0 {
		return
	}
	fmt.Fprintf(b, "\nThe pair is Envoy's ratelimit filter and its service, here %q, the faster tuning.\n", pair)
}

func (r *report) writeLatency(b *strings.Builder) {
	title := fmt.Sprintf("Latency in µs, open loop of %d requests/s:", r.Rate)
	measured := slices.DeleteFunc(slices.Clone(r.setups), func(s *setup) bool { return !s.under(latencyLoad) })
	table(b, measured, title, []string{"p50", "p99", "p99.9"}, func(s *setup) []string {
		var cells []string
		for _, q := range []quantity{p50, p99, p999} {
			cells = append(cells, r.Results.spread(s.id, latencyLoad, q).text(0))
		}
		return cells
	})
}

func (r *report) writeCosts(b *strings.Builder) {
	heads := []string{
		"Envoy", "service", "Redis", "per check", "requests for each CPU second",
		"Redis commands per request", "memory: Envoy", "service", "Redis",
	}
	table(b, r.setups, "CPU µs per request, Redis commands per request, and memory in MB, at 16 connections:", heads,
		func(s *setup) []string {
			at := func(decimals int, q quantity) string {
				if median := r.Results.spread(s.id, mainLoad, q).Median; !math.IsNaN(median) {
					return fmt.Sprintf("%.*f", decimals, median)
				}
				return "-"
			}
			check := "-"
			if s.id != unlimited && s.status == 200 {
				check = r.Results.checkCost(s.id, mainLoad).text(1)
			}
			return []string{
				at(1, envoyCPU),
				at(1, serviceCPU),
				at(1, redisCPU),
				check,
				r.Results.spread(s.id, mainLoad, requestsPerCPUSecond).text(0),
				at(4, redisCommands),
				at(0, func(s *sample) float64 { return s.MemoryMB.Envoy }),
				at(0, func(s *sample) float64 { return s.MemoryMB.Service }),
				at(0, func(s *sample) float64 { return s.MemoryMB.Redis }),
			}
		})
	b.WriteString("\nRequests for each second of CPU time of Envoy, the service and Redis together. Per check: Envoy's " +
		"CPU beyond that without a limiter, the service's and Redis's; " +
		"of a denied request it means nothing, as that never reaches the upstream.\n")
}

// goalTable holds the figures to the goals.
func (r *report) goalTable() string {
	var b strings.Builder
	b.WriteString("\nGoals, at 16 connections unless it says otherwise; latency in the open loop:\n\n| | goal | figure " +
		"| |\n|---|---|---:|---|\n")
	for _, g := range r.Goals {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", g.Title, g.bound(), g.Figure.text(g.decimals), g.verdict())
	}
	return b.String()
}

// writeTrouble names the samples in which not every request was decided.
func (r *report) writeTrouble(b *strings.Builder) {
	var lines []string
	for _, s := range r.setups {
		for load, samples := range r.Results[s.id] {
			var undecided, wrong int64
			for _, sample := range samples {
				undecided, wrong = undecided+sample.Undecided, wrong+sample.WrongStatus
			}
			if undecided+wrong > 0 {
				lines = append(lines, fmt.Sprintf("- %s, %s: %d checks failed or timed out, %d answers were not %d\n", s.title,
					load, undecided, wrong, s.status))
			}
		}
	}
	if len(lines) > 0 {
		slices.Sort(lines)
		b.WriteString("\nNot every request was decided:\n\n" + strings.Join(lines, ""))
	}
}
