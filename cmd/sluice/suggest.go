package main

import (
	"github.com/spf13/cobra"

	"github.com/sluiceproxy/sluice/cmd/sluice/explain"
	"github.com/sluiceproxy/sluice/cmd/sluice/simulate"
	"github.com/sluiceproxy/sluice/cmd/sluice/state"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

func (a *app) suggestCommand() *cobra.Command {
	var from source
	log := ""
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
			return a.suggest(from, log, args[0])
		},
	}
	from.flag(command)
	command.Flags().StringVar(&log, "log", "", "access log of Envoy")
	must(command.MarkFlagRequired("log"))
	return command
}

// suggest prints what a log says about the limits of a rule.
func (a *app) suggest(from source, log, name string) error {
	l, err := a.limiter(from)
	if err != nil {
		return err
	}
	if _, err := state.Tagged(l.cfg, name, "", ""); err != nil {
		return usage("%w", err)
	}
	text, err := a.read(log)
	if err != nil {
		return err
	}
	recorded, err := simulate.ReadLog(text)
	if err != nil {
		return usage("%s: %w", log, err)
	}
	expressions := &explain.Expressions{}
	rules, err := rule.Compile(l.cfg, expressions)
	if err != nil {
		return err
	}
	recorded.Use(expressions)
	all, err := recorded.Suggest(rules, name)
	if err != nil {
		return usage("%s: %w", log, err)
	}
	return a.printSuggestions(all)
}

func (a *app) printSuggestions(all []simulate.Suggestion) error {
	if a.json() {
		return a.writeJSON(map[string]any{"limits": all})
	}
	rows := [][]string{{"LIMIT", "WHAT", "IDENTITIES", "P50", "P90", "P99", "P99.9", "MAX", "SUGGESTED"}}
	for i := range all {
		s := &all[i]
		suggested := whole(s.Suggested)
		if s.Why != "" {
			suggested = s.Why
		}
		rows = append(rows, []string{
			s.Limit, limitOf(s.Algorithm, s.Now, s.Now, s.Window), whole(int64(s.Identities)),
			whole(s.P50), whole(s.P90), whole(s.P99), whole(s.P999), whole(s.Max), suggested,
		})
	}
	return a.table(rows)
}
