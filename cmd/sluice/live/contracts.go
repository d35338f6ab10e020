package live

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/cmd/sluice/shown"
)

// The commands about a file of overrides.

const fileFormat = `The file is CSV with the first line "rule,values,setting,for", several values joined by
"|" and escaped as in keys ("%7C" for "|", "%25" for "%"), or JSON lines with the same fields and
a list of values. {IDENTITY} in place of the values, in JSON a field "identity", is an identity
as keys, top and override list show it. "for" is how long, such as 2h; empty: without end.`

// comparing completes a command that compares a file with what is in force. prune is the usage of --prune.
func comparing(c *console.Console, command *cobra.Command, prune string,
	then func(context.Context, *session, *difference) error,
) *cobra.Command {
	f, prunes := new(Flags), false
	f.addWalk(command)
	command.Flags().BoolVar(&prunes, "prune", false, prune)
	command.Args = cobra.ExactArgs(1)
	return f.asking(c, command, func(ctx context.Context, s *session, args []string) error {
		d, err := s.compare(ctx, args[0], prunes)
		if err != nil {
			return err
		}
		return then(ctx, s, d)
	})
}

func importCommand(c *console.Console) *cobra.Command {
	dryRun := false
	command := &cobra.Command{
		Use:   "import FILE",
		Short: "Set the overrides of a file",
		Long: "Import sets what a file says of many identities, and says what was added and changed. It writes\n" +
			"nothing while a line has a mistake.\n\n" + fileFormat,
	}
	command.Flags().BoolVar(&dryRun, "dry-run", false, "write nothing")
	return comparing(c, command, "remove the overrides that the file does not have, of the rules that it has",
		func(ctx context.Context, s *session, d *difference) error {
			if !dryRun {
				if err := s.client.WriteSettings(ctx, d.writes...); err != nil {
					return console.Redis(err)
				}
			}
			return s.printDifference(d, false)
		})
}

func diffCommand(c *console.Console) *cobra.Command {
	command := &cobra.Command{
		Use:   "diff FILE",
		Short: "Compare the overrides of a file with those in force",
		Long: "Diff says what import would add and change, and exits with 1 if there is anything. Of an override\n" +
			"that ends it does not compare when.\n\n" + fileFormat,
	}
	return comparing(c, command, "list the overrides that the file does not have, too, of the rules that it has",
		func(_ context.Context, s *session, d *difference) error {
			if err := s.printDifference(d, true); err != nil {
				return err
			}
			if len(d.Changes) > 0 {
				return console.ErrShown
			}
			return nil
		})
}

func exportCommand(c *console.Console) *cobra.Command {
	f := new(Flags)
	command := &cobra.Command{
		Use:   "export RULE",
		Short: "Write the overrides of a rule as a file that import reads",
		Long: "Export walks over Redis' keys, as top does, and writes the overrides of a rule as CSV or, with\n" +
			"-o json, as JSON lines. \"for\" is what is left of their time.",
		Args: cobra.ExactArgs(1),
	}
	f.addWalk(command)
	return f.asking(c, command, func(ctx context.Context, s *session, args []string) error {
		tagger, err := NewTagger(s.limiter.Config, args[0])
		if err != nil {
			return console.Usage("%w", err)
		}
		all, err := s.client.Overrides(ctx, s.limiter.Config, args[0])
		if err != nil {
			return console.Redis(err)
		}
		var lines []ContractLine
		for i := range all {
			lines = append(lines, lineOf(tagger, &all[i]))
		}
		return WriteContracts(s.Out, lines, s.JSON())
	})
}

// lineOf is the line of a file that an override in force is. What has no line is left out by the
// plugin, too.
func lineOf(t *Tagger, o *Overridden) ContractLine {
	line := ContractLine{Rule: t.Rule.Name, Setting: o.Value}
	if line.Values = t.Values(o.Identity); line.Values == nil && len(t.Rule.Key) > 0 {
		line.Identity = shown.Cell(o.Identity)
	}
	if o.ForMicros > 0 {
		line.For = max(time.Duration(o.ForMicros)*time.Microsecond, time.Millisecond).String()
	}
	return line
}
