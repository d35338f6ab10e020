package main

import (
	"context"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/sluiceproxy/sluice/cmd/sluice/duration"
	"github.com/sluiceproxy/sluice/cmd/sluice/shown"
	"github.com/sluiceproxy/sluice/cmd/sluice/state"
)

// maxReason bounds what Redis keeps beside an override, in bytes.
const maxReason = 500

// set makes a command that sets an override.
func (a *app) set(use, short, long string, value *string) *cobra.Command {
	s := &stateFlags{}
	var life time.Duration
	var reason string
	command := a.identityCommand(use, short, long, s,
		func(ctx context.Context, l *limiter, client *state.Client, id *state.Identity) error {
			if err := checkOverride(*value); err != nil {
				return usage("%w", err)
			}
			if life > 0 && life < time.Millisecond {
				return usage("--for: want at least 1ms")
			}
			if len(reason) > maxReason || !utf8.ValidString(reason) {
				return usage("--reason: want at most %d bytes of UTF-8", maxReason)
			}
			if err := overridable(l, id); err != nil {
				return err
			}
			override := &state.Override{Value: *value, ForMicros: life.Microseconds(), Reason: reason}
			if err := client.SetOverride(ctx, state.Prefix(l.cfg), id, override); err != nil {
				return &failure{exitRedis, err}
			}
			done := changed{Rule: id.Rule.Name, Tag: string(id.Tag), Value: *value, text: *value + ", without end"}
			if life > 0 {
				done.For = life.String()
				done.text = *value + " for " + wait(life.Microseconds())
			}
			return a.printChange(&done)
		})
	command.Flags().Var(duration.New(&life), "for", "how long, such as 2h or 1d (default: without end)")
	command.Flags().StringVar(&reason, "reason", "", "why, and who says so: get and override list show it")
	return command
}

func (a *app) overrideCommand() *cobra.Command {
	value := new(string)
	command := a.set("override", "Change an identity's limits: a factor, free or block",
		"Override sets what a rule with \"overrides\": true reads for an identity. It is in\nforce on every Envoy within a "+
			"second. Unblock removes it.", value)
	command.Flags().StringVar(value, "to", "", "block, free, or a factor such as x2 or x0.5")
	must(command.MarkFlagRequired("to"))
	command.AddCommand(a.overrideListCommand())
	return command
}

func (a *app) blockCommand() *cobra.Command {
	value := "block"
	return a.set("block", "Reject all requests of an identity", "Block is override --to block.", &value)
}

func (a *app) overrideListCommand() *cobra.Command {
	s := &stateFlags{}
	command := &cobra.Command{
		Use:   "list [RULE]",
		Short: "List the overrides in force",
		Long: `List walks over Redis' keys, as top does, and shows every override of a rule, or
of all rules: whom it is for, what it is, how long it stays, and why.

It needs the Redis user that docs/cli.md has for this command: Envoy's may not SCAN.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			l, client, err := a.open(c.Context(), s)
			if err != nil {
				return err
			}
			defer client.Close()
			rule := ""
			if len(args) > 0 {
				rule = args[0]
				if _, err := state.Tagged(l.cfg, rule, "", ""); err != nil {
					return usage("%w", err)
				}
			}
			all, err := client.Overrides(c.Context(), l.cfg, rule)
			if err != nil {
				return &failure{exitRedis, err}
			}
			return a.printOverrides(all)
		},
	}
	s.flags(a, command)
	s.walkFlags(command)
	return command
}

func (a *app) printOverrides(all []state.Overridden) error {
	if a.json() {
		for i := range all {
			o := &all[i]
			o.Identity, o.Key, o.Value, o.Reason = shown.UTF8(o.Identity), shown.UTF8(o.Key), shown.UTF8(o.Value),
				shown.UTF8(o.Reason)
		}
		return a.writeJSON(map[string]any{"overrides": append([]state.Overridden{}, all...)})
	}
	if len(all) == 0 {
		a.say("no override is in force\n")
		return nil
	}
	rows := [][]string{{"RULE", "IDENTITY", "OVERRIDE", "FOR ANOTHER", "REASON"}}
	for i := range all {
		o := &all[i]
		left, value, rule := "(without end)", o.Value, o.Rule
		if o.ForMicros >= 0 {
			left = wait(o.ForMicros)
		}
		if checkOverride(value) != nil {
			value += " (not valid)"
		}
		if rule == "" {
			rule = "(unknown)"
		}
		rows = append(rows, []string{rule, identityCell(o.Identity), value, left, o.Reason})
	}
	return a.table(rows)
}
