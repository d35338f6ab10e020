package main

import (
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluiceproxy/sluice/cmd/sluice/duration"
	"github.com/sluiceproxy/sluice/cmd/sluice/shown"
	"github.com/sluiceproxy/sluice/cmd/sluice/state"
)

func (a *app) topCommand() *cobra.Command {
	s := &stateFlags{}
	s.IdentitiesAtOnce = 100
	count := 10
	command := &cobra.Command{
		Use:   "top RULE",
		Short: "List the identities that have used most of a rule's limits",
		Long: `Top walks over Redis' keys in small steps with pauses between them, which do not
hold up other clients, and shows the identities that have used the largest share
of a limit. Of a rule with tiers the state is weighed by each tier, or by --tier.

It needs the Redis user that docs/cli.md has for this command: Envoy's may not SCAN.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if count < 1 {
				return usage("--count: want at least 1")
			}
			l, client, err := a.open(c.Context(), s)
			if err != nil {
				return err
			}
			defer client.Close()
			if _, err := state.Tagged(l.cfg, args[0], s.tier, ""); err != nil {
				return usage("%w", err)
			}
			top, err := client.Top(c.Context(), l.cfg, args[0], s.tier, count)
			if err != nil {
				return &failure{exitRedis, err}
			}
			return a.printTop(top)
		},
	}
	s.flags(a, command)
	command.Flags().IntVar(&count, "count", count, "how many identities to show")
	s.walkFlags(command)
	return command
}

// walkFlags are those of commands that walk over all keys.
func (s *stateFlags) walkFlags(command *cobra.Command) {
	s.walks, s.KeysInAScanStep, s.PauseOfScan = true, 100, time.Millisecond
	command.Flags().Int64Var(&s.KeysInAScanStep, "step", s.KeysInAScanStep, "keys in a step of the walk")
	command.Flags().Var(duration.New(&s.PauseOfScan), "pause", "time between two steps")
}

func (a *app) printTop(top []state.Top) error {
	if a.json() {
		for i := range top {
			top[i].Identity, top[i].Key = shown.UTF8(top[i].Identity), shown.UTF8(top[i].Key)
		}
		return a.writeJSON(map[string]any{"identities": append([]state.Top{}, top...)})
	}
	if len(top) == 0 {
		a.say("no identity has used anything\n")
		return nil
	}
	rows := [][]string{{"IDENTITY", "USED", "OF", "RESET IN", "LIMIT"}}
	for _, t := range top {
		rows = append(rows, []string{
			identityCell(t.Identity), strconv.FormatInt(t.Used, 10), strconv.FormatInt(t.Capacity, 10),
			wait(t.ResetMicros), t.Name,
		})
	}
	return a.table(rows)
}
