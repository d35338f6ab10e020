package play

import (
	"fmt"
	"strconv"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/cmd/sluice/simulate"
)

// print writes the files that were asked for, and prints the report.
func (s *simulation) print(c *console.Console, r *simulate.Report) error {
	tables := simulationTables(r)
	if s.svg != "" {
		if err := c.Write(s.svg, r.SVG()); err != nil {
			return err
		}
	}
	if s.html != "" {
		page, err := r.HTML(tables)
		if err != nil {
			return err
		}
		if err := c.Write(s.html, page); err != nil {
			return err
		}
	}
	s.warnIdle(c, r)
	if c.JSON() {
		return c.Print(r)
	}
	for i, rows := range tables {
		if i > 0 {
			c.Say("\n")
		}
		if err := c.Table(rows); err != nil {
			return err
		}
	}
	if len(r.Log) > 0 {
		c.Say("\nLOG\n")
	}
	for _, line := range r.Log {
		c.Say("%d times: %s\n", line.Times, line.Text)
	}
	return nil
}

// warnIdle names the rules that applied to no request.
func (s *simulation) warnIdle(c *console.Console, r *simulate.Report) {
	hint := ""
	if s.log != "" {
		hint = "; a log has only what its format writes"
	}
	for _, rule := range r.Rules {
		if rule.Why != "" {
			c.Warn("note: rule %q applied to no request: %s%s\n", rule.Rule, rule.Why, hint)
		}
	}
}

// simulationTables are a report's tables: clients, rules, and Redis.
func simulationTables(r *simulate.Report) [][][]string {
	clients := [][]string{{"CLIENTS", "REQUESTS", "RETRIES", "ADMITTED", "429", "503"}}
	for _, g := range r.Groups {
		clients = append(clients, []string{
			g.Name, console.Whole(g.Requests), console.Whole(g.Retries),
			console.Whole(g.Admitted), console.Whole(g.Rejected), console.Whole(g.Refused),
		})
	}
	rules := [][]string{{"RULE", "CHECKED", "ADMITTED", "REJECTED", "LIMIT", "MOST IN ANY WINDOW OF ONE IDENTITY"}}
	for _, rule := range r.Rules {
		rejected := console.Whole(rule.Rejected)
		if rule.Mode == "shadow" {
			rejected = console.Whole(rule.Shadow) + " (shadow)"
		}
		if rule.Over > 0 {
			rejected += ", over " + console.Whole(rule.Over)
		}
		head := []string{rule.Rule, console.Whole(rule.Checked), console.Whole(rule.Admitted), rejected}
		for _, l := range rule.Limits {
			text := console.Limit(l.Algorithm, l.Limit.Limit, l.Capacity, l.Window, l.Unit)
			rules = append(rules, append(head[:4:4], text, console.Whole(l.MostInWindow)))
			head = []string{"", "", "", ""}
		}
	}
	tables := [][][]string{clients, rules}
	if r.Redis != nil {
		tables = append(tables, redisTable(r))
	}
	return tables
}

func redisTable(r *simulate.Report) [][]string {
	d := r.Redis
	rows := [][]string{
		{"REDIS", ""},
		{"commands a second", fmt.Sprintf("%.0f (%.3f a request)", d.CommandsASecond, d.CommandsARequest)},
		{"busy cores, of shards", fmt.Sprintf("%.3f of %d", d.Cores, d.Shards)},
		{"bytes a second", fmt.Sprintf("%.0f", d.BytesASecond)},
		{"connections", strconv.Itoa(d.Connections)},
		{"keys at the end", fmt.Sprintf("%d, %s bytes", d.Keys, console.Whole(d.KeyBytes))},
		{"wait, p50 and p99", fmt.Sprintf("%.2f and %.2f ms", float64(r.WaitP50Micros)/1000, float64(r.WaitP99Micros)/1000)},
		{"rejected from memory", console.Whole(d.DenyCacheHits)},
	}
	if d.LeaseUnitsTaken > 0 {
		rows = append(rows, []string{
			"leased units, and given back",
			console.Whole(d.LeaseUnitsTaken) + ", " + console.Whole(d.LeaseUnitsGivenUp),
		})
	}
	if d.Failures > 0 {
		rows = append(rows, []string{"checks it did not decide", console.Whole(d.Failures)},
			[]string{"breaker opened", console.Whole(d.BreakerOpenings)},
			[]string{"let pass undecided", console.Whole(r.Undecided)},
			[]string{"decided locally", console.Whole(r.Local)})
	}
	return rows
}
