package play

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/cmd/sluice/input"
	"github.com/sluiceproxy/sluice/cmd/sluice/simulate"
)

// Comparison is the result of two configurations on one log.
type Comparison struct {
	Requests int64        `json:"requests"`
	Both     int64        `json:"refused_by_both"`
	OnlyA    int64        `json:"refused_by_a_only"`
	OnlyB    int64        `json:"refused_by_b_only"`
	Who      []Difference `json:"who"`
}

// Difference is an identity that one of the two refuses requests which the other admits.
type Difference struct {
	By       string `json:"by"` // "a" or "b"
	Rule     string `json:"rule"`
	Identity string `json:"identity"`
	Requests int64  `json:"requests"`
}

func compareCommand(c *console.Console) *cobra.Command {
	var log simulation
	count := 20
	command := &cobra.Command{
		Use:   "compare A B",
		Short: "Say whom one of two configurations would refuse, and the other not",
		Long: `Compare plays an access log through two configurations, one Envoy each, and lists
the identities whose requests one of them refuses and the other admits, those with
most such requests first.`,
		Example: "  sluice compare today.json tomorrow.json --log access.log",
		Args:    cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			if count < 1 {
				return console.Usage("--count: want at least 1")
			}
			var refused [2]map[int]Difference
			var requests int64
			for i, file := range args {
				s := simulation{Source: input.Source{File: file}, log: log.log, fields: log.fields}
				who := map[int]Difference{}
				s.options = simulate.Options{
					Envoys: 1, Workers: 1, RoundTripMicros: 500, Seed: 1,
					Refused: func(number int, rule, tag string) {
						_, identity, _ := strings.Cut(tag, "|")
						who[number] = Difference{Rule: rule, Identity: identity}
					},
				}
				report, err := s.run(c)
				if err != nil {
					return err
				}
				refused[i], requests = who, report.Requests
			}
			found := compare(refused[0], refused[1])
			found.Requests = requests
			return found.print(c, args, count)
		},
	}
	command.Flags().IntVar(&count, "count", count, "how many identities to show")
	log.logFlags(command)
	return command
}

// compare finds the requests that one refuses and the other does not, by identity.
func compare(a, b map[int]Difference) *Comparison {
	c, who := &Comparison{}, map[Difference]int64{}
	only := func(by string, mine, other map[int]Difference) (count int64) {
		for number, d := range mine {
			if _, both := other[number]; !both {
				count++
				d.By = by
				who[d]++
			}
		}
		return count
	}
	c.OnlyA, c.OnlyB = only("a", a, b), only("b", b, a)
	c.Both = int64(len(a)) - c.OnlyA
	for d, requests := range who {
		d.Requests = requests
		c.Who = append(c.Who, d)
	}
	slices.SortFunc(c.Who, func(x, y Difference) int {
		return cmp.Or(cmp.Compare(y.Requests, x.Requests), cmp.Compare(x.By, y.By), cmp.Compare(x.Rule, y.Rule),
			cmp.Compare(x.Identity, y.Identity))
	})
	return c
}

func (all *Comparison) print(c *console.Console, files []string, count int) error {
	if c.JSON() {
		all.Who = append([]Difference{}, all.Who...)
		return c.Print(all)
	}
	c.Say("%d requests: %d are refused by both, %d by %s alone, %d by %s alone.\n", all.Requests, all.Both, all.OnlyA,
		files[0], all.OnlyB, files[1])
	if len(all.Who) == 0 {
		return nil
	}
	rows := [][]string{{"REFUSED BY", "RULE", "IDENTITY", "REQUESTS"}}
	for _, d := range all.Who[:min(count, len(all.Who))] {
		rows = append(rows, row(files[strings.Index("ab", d.By)], d.Rule, console.Identity(d.Identity), d.Requests))
	}
	if err := c.Table(rows); err != nil {
		return err
	}
	if more := len(all.Who) - count; more > 0 {
		c.Say("and %d identities more: --count\n", more)
	}
	return nil
}
