package main

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluiceproxy/sluice/cmd/sluice/explain"
	"github.com/sluiceproxy/sluice/cmd/sluice/shown"
	"github.com/sluiceproxy/sluice/cmd/sluice/simulate"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// comparison is what two configurations make of one log.
type comparison struct {
	Requests int64        `json:"requests"`
	Both     int64        `json:"refused_by_both"`
	OnlyA    int64        `json:"refused_by_a_only"`
	OnlyB    int64        `json:"refused_by_b_only"`
	Who      []difference `json:"who"`
}

// difference is an identity that one of the two refuses requests which the other admits.
type difference struct {
	By       string `json:"by"` // "a" or "b"
	Rule     string `json:"rule"`
	Identity string `json:"identity"`
	Requests int64  `json:"requests"`
}

func (a *app) compareCommand() *cobra.Command {
	log, count := "", 20
	command := &cobra.Command{
		Use:   "compare A B",
		Short: "Say whom one of two configurations would refuse, and the other not",
		Long: `Compare plays an access log through two configurations, one Envoy each, and lists
the identities whose requests one of them refuses and the other admits, those with
most such requests first.`,
		Example: "  sluice simulate compare today.json tomorrow.json --log access.log",
		Args:    cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			if count < 1 {
				return usage("--count: want at least 1")
			}
			text, err := a.read(log)
			if err != nil {
				return err
			}
			var refused [2]map[int]difference
			var requests int64
			for i, file := range args {
				if refused[i], requests, err = a.replay(file, log, text); err != nil {
					return err
				}
			}
			c := compare(refused[0], refused[1])
			c.Requests = requests
			return a.printComparison(c, args, count)
		},
	}
	command.Flags().StringVar(&log, "log", "", "access log of Envoy")
	command.Flags().IntVar(&count, "count", count, "how many identities to show")
	must(command.MarkFlagRequired("log"))
	return command
}

// replay plays a log through a configuration, and returns the requests that are refused.
func (a *app) replay(file, name string, log []byte) (refused map[int]difference, requests int64, err error) {
	l, err := a.limiter(source{file})
	if err != nil {
		return nil, 0, err
	}
	recorded, err := simulate.ReadLog(log)
	if err != nil {
		return nil, 0, usage("%s: %w", name, err)
	}
	refused = map[int]difference{}
	options := simulate.Options{
		Envoys: 1, Workers: 1, RoundTripMicros: 500, Seed: 1, Expressions: &explain.Expressions{},
		Refused: func(number int, rule, tag string) {
			_, identity, _ := strings.Cut(tag, "|")
			refused[number] = difference{Rule: rule, Identity: identity}
		},
	}
	rules, err := rule.Compile(l.cfg, options.Expressions)
	if err != nil {
		return nil, 0, err
	}
	report := simulate.Run(l.cfg, rules, recorded, options)
	return refused, report.Requests, nil
}

// compare finds the requests that one refuses and the other does not, by identity.
func compare(a, b map[int]difference) *comparison {
	c := &comparison{}
	who := map[difference]int64{}
	for number, d := range a {
		if _, ok := b[number]; ok {
			c.Both++
			continue
		}
		c.OnlyA++
		d.By = "a"
		who[d]++
	}
	for number, d := range b {
		if _, ok := a[number]; !ok {
			c.OnlyB++
			d.By = "b"
			who[d]++
		}
	}
	for d, requests := range who {
		d.Requests = requests
		c.Who = append(c.Who, d)
	}
	slices.SortFunc(c.Who, func(x, y difference) int {
		return cmp.Or(cmp.Compare(y.Requests, x.Requests), cmp.Compare(x.By, y.By), cmp.Compare(x.Rule, y.Rule),
			cmp.Compare(x.Identity, y.Identity))
	})
	return c
}

func (a *app) printComparison(c *comparison, files []string, count int) error {
	if a.json() {
		for i := range c.Who {
			c.Who[i].Identity = shown.UTF8(c.Who[i].Identity)
		}
		c.Who = append([]difference{}, c.Who...)
		return a.writeJSON(c)
	}
	a.say("%d requests: %d are refused by both, %d by %s alone, %d by %s alone.\n", c.Requests, c.Both, c.OnlyA,
		files[0], c.OnlyB, files[1])
	if len(c.Who) == 0 {
		return nil
	}
	rows := [][]string{{"REFUSED BY", "RULE", "IDENTITY", "REQUESTS"}}
	for i := range c.Who[:min(count, len(c.Who))] {
		d := &c.Who[i]
		by := files[0]
		if d.By == "b" {
			by = files[1]
		}
		rows = append(rows, []string{by, d.Rule, identityCell(d.Identity), whole(d.Requests)})
	}
	if err := a.table(rows); err != nil {
		return err
	}
	if more := len(c.Who) - count; more > 0 {
		a.say("and %d identities more: --count\n", more)
	}
	return nil
}
