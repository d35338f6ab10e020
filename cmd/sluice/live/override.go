package live

import (
	"context"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/cmd/sluice/duration"
	"github.com/sluiceproxy/sluice/cmd/sluice/shown"
	"github.com/sluiceproxy/sluice/cmd/sluice/state"
)

// maxReason bounds the reason that Redis keeps with an override, in bytes.
const maxReason = 500

// set makes a command that sets an override.
func set(c *console.Console, use, short, long string, value *string) *cobra.Command {
	var life time.Duration
	var reason string
	command := new(flags).identityCommand(c, use, short, long,
		func(ctx context.Context, s *session, id *state.Identity) error {
			if err := checkOverride(*value); err != nil {
				return console.Usage("%w", err)
			}
			if life > 0 && life < time.Millisecond {
				return console.Usage("--for: want at least 1ms")
			}
			if len(reason) > maxReason || !utf8.ValidString(reason) {
				return console.Usage("--reason: want at most %d bytes of UTF-8", maxReason)
			}
			if err := overridable(s.limiter, id); err != nil {
				return err
			}
			override := &state.Override{Value: *value, ForMicros: life.Microseconds(), Reason: reason}
			if err := s.client.SetOverride(ctx, id, override); err != nil {
				return console.Redis(err)
			}
			if life == 0 {
				return s.printChange(id, changed{Value: *value}, *value+", without end")
			}
			return s.printChange(id, changed{Value: *value, For: life.String()},
				*value+" for "+console.Wait(life.Microseconds()))
		})
	command.Flags().Var(duration.New(&life), "for", "how long, such as 2h or 1d (default: without end)")
	command.Flags().StringVar(&reason, "reason", "", "why, and who says so: get and override list show it")
	return command
}

func overrideCommand(c *console.Console) *cobra.Command {
	value := new(string)
	command := set(c, "override", "Change an identity's limits: a factor, free or block",
		"Override sets what a rule with \"overrides\": true reads for an identity. It is in\nforce on every Envoy within a "+
			"second. Unblock removes it.", value)
	command.Flags().StringVar(value, "to", "", "block, free, or a factor such as x2 or x0.5")
	console.Must(command.MarkFlagRequired("to"))
	command.AddCommand(overrideListCommand(c))
	return command
}

func blockCommand(c *console.Console) *cobra.Command {
	value := "block"
	return set(c, "block", "Reject all requests of an identity", "Block is override --to block.", &value)
}

func overrideListCommand(c *console.Console) *cobra.Command {
	f := new(flags)
	command := &cobra.Command{
		Use:   "list [RULE]",
		Short: "List the overrides in force",
		Long: `List walks over Redis' keys, as top does, and shows every override of a rule, or
of all rules: whom it is for, what it is, how long it stays, and why.

It needs the Redis user that docs/cli.md has for this command: Envoy's may not SCAN.`,
		Args: cobra.MaximumNArgs(1),
	}
	f.addWalk(command)
	return f.asking(c, command, func(ctx context.Context, s *session, args []string) error {
		rule := ""
		if len(args) > 0 {
			rule = args[0]
			if _, err := state.Tagged(s.limiter.Config, rule, "", ""); err != nil {
				return console.Usage("%w", err)
			}
		}
		all, err := s.client.Overrides(ctx, s.limiter.Config, rule)
		if err != nil {
			return console.Redis(err)
		}
		return s.printOverrides(all)
	})
}

func (s *session) printOverrides(all []state.Overridden) error {
	if s.JSON() {
		for i := range all {
			o := &all[i]
			o.Identity, o.Key, o.Value, o.Reason = shown.UTF8(o.Identity), shown.UTF8(o.Key), shown.UTF8(o.Value),
				shown.UTF8(o.Reason)
		}
		return s.Print(map[string]any{"overrides": append([]state.Overridden{}, all...)})
	}
	if len(all) == 0 {
		s.Say("no override is in force\n")
		return nil
	}
	rows := [][]string{{"RULE", "IDENTITY", "OVERRIDE", "FOR ANOTHER", "REASON"}}
	for i := range all {
		o := &all[i]
		left, value, rule := "(without end)", o.Value, o.Rule
		if o.ForMicros >= 0 {
			left = console.Wait(o.ForMicros)
		}
		if checkOverride(value) != nil {
			value += " (not valid)"
		}
		if rule == "" {
			rule = "(unknown)"
		}
		rows = append(rows, []string{rule, console.Identity(o.Identity), value, left, o.Reason})
	}
	return s.Table(rows)
}
