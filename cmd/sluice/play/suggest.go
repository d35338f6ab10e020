package play

import (
	"github.com/spf13/cobra"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/cmd/sluice/simulate"
	"github.com/sluiceproxy/sluice/cmd/sluice/state"
)

func suggestCommand(c *console.Console) *cobra.Command {
	var s simulation
	command := &cobra.Command{
		Use:   "suggest RULE",
		Short: "Suggest limits for a rule from an access log",
		Long: `Suggest replays an access log and finds for each identity of a rule the least
limit that would have refused none of its requests, by the algorithm and the
window of each of the rule's limits. A burst grows in proportion. It shows these by
their share of the identities, and suggests the limit that would have refused
requests of 1 in 1,000 of them.`,
		Example: "  sluice simulate suggest per-key -c plugin.json --log access.log",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return s.suggest(c, args[0])
		},
	}
	s.Source.Flag(command)
	logFlag(command, &s.log)
	return command
}

// suggest prints what a log says about the limits of a rule.
func (s *simulation) suggest(c *console.Console, name string) error {
	l, rules, err := s.load(c)
	if err != nil {
		return err
	}
	if _, err := state.Tagged(l.Config, name, "", ""); err != nil {
		return console.Usage("%w", err)
	}
	recorded, err := s.readLog(c)
	if err != nil {
		return err
	}
	all, err := recorded.Suggest(rules, s.options.Expressions, name)
	if err != nil {
		return console.Usage("%s: %w", s.log, err)
	}
	return printSuggestions(c, all)
}

func printSuggestions(c *console.Console, all []simulate.Suggestion) error {
	if c.JSON() {
		return c.Print(map[string]any{"limits": all})
	}
	rows := [][]string{{"LIMIT", "WHAT", "IDENTITIES", "P50", "P90", "P99", "P99.9", "MAX", "SUGGESTED"}}
	for i := range all {
		s := &all[i]
		suggested := console.Whole(s.Suggested)
		if s.Why != "" {
			suggested = s.Why
		}
		rows = append(rows, []string{
			s.Limit, console.Limit(s.Algorithm, s.Now, s.Now, s.Window), console.Whole(int64(s.Identities)),
			console.Whole(s.P50), console.Whole(s.P90), console.Whole(s.P99), console.Whole(s.P999), console.Whole(s.Max),
			suggested,
		})
	}
	return c.Table(rows)
}
