package live

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
)

func topCommand(c *console.Console) *cobra.Command {
	f, count := new(Flags), 10
	command := &cobra.Command{
		Use:   "top RULE",
		Short: "List the identities that have used most of a rule's limits",
		Long: `Top walks over Redis' keys in small steps with pauses between them, which do not
hold up other clients, and shows the identities that have used the largest share
of a limit. Of a rule with tiers the state is weighed by each tier, or by --tier.

It needs the Redis user that docs/cli.md has for this command: Envoy's may not SCAN.`,
		Args: cobra.ExactArgs(1),
	}
	f.addWalk(command)
	command.Flags().IntVar(&count, "count", count, "how many identities to show")
	walk := f.check
	f.check = func(args []string) error {
		if count < 1 {
			return console.Usage("--count: want at least 1")
		}
		return walk(args)
	}
	return f.asking(c, command, func(ctx context.Context, s *session, args []string) error {
		if _, err := Tagged(s.limiter.Config, args[0], s.tier, ""); err != nil {
			return console.Usage("%w", err)
		}
		top, err := s.client.Top(ctx, s.limiter.Config, args[0], s.tier, count)
		if err != nil {
			return console.Redis(err)
		}
		return s.printTop(top)
	})
}

func (s *session) printTop(top []Top) error {
	if s.JSON() {
		return s.Print(map[string]any{"identities": append([]Top{}, top...)})
	}
	if len(top) == 0 {
		s.Say("no identity has used anything\n")
		return nil
	}
	rows := [][]string{{"IDENTITY", "USED", "OF", "RESET IN", "LIMIT"}}
	for _, t := range top {
		rows = append(rows, []string{
			console.Identity(t.Identity), console.Whole(t.Used), console.Units(console.Whole(t.Capacity), t.Unit),
			console.Wait(t.ResetMicros), t.Name,
		})
	}
	return s.Table(rows)
}
