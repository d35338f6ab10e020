package live

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/cmd/sluice/duration"
	"github.com/sluiceproxy/sluice/plugin/override"
)

// maxReason bounds the reason that Redis keeps with an override, in bytes.
const maxReason = 500

// set makes a command that sets an override.
func set(c *console.Console, f *Flags, use, short, long string, setting func() (string, error)) *cobra.Command {
	var life time.Duration
	var reason string
	command := f.identityCommand(c, use, short, long,
		func(ctx context.Context, s *session, id *Identity) error {
			value, err := setting()
			if err == nil {
				err = CheckSetting(value, id)
			}
			if err != nil {
				return console.Usage("%w", err)
			}
			if life > 0 && life < time.Millisecond {
				return console.Usage("--for: want at least 1ms")
			}
			if len(reason) > maxReason || !utf8.ValidString(reason) {
				return console.Usage("--reason: want at most %d bytes of UTF-8", maxReason)
			}
			if !id.Rule.Overrides {
				return console.Usage("rule %q: %w", id.Rule.Name, ErrOverrides)
			}
			o := Setting{Tag: string(id.Tag), Value: value, Reason: reason, Life: life}
			if err := s.client.WriteSettings(ctx, o); err != nil {
				return console.Redis(err)
			}
			if life == 0 {
				return s.printChange(id, changed{Value: value}, value+", without end")
			}
			return s.printChange(id, changed{Value: value, For: life.String()},
				value+" for "+console.Wait(life.Microseconds()))
		})
	command.Flags().Var(duration.New(&life), "for", "how long, such as 2h or 1d (default: without end)")
	command.Flags().StringVar(&reason, "reason", "", "why, and who says so: get and override list show it")
	return command
}

func overrideCommand(c *console.Console) *cobra.Command {
	f := &Flags{sets: true}
	var to string
	var limits []string
	command := set(c, f, "override", "Change an identity's limits: a tier, numbers, a factor, free or block",
		"Override sets what a rule with \"overrides\": true reads for an identity. It is in\nforce on every Envoy within a "+
			"second. Unblock removes it.", func() (string, error) {
			given := 0
			for _, is := range []bool{to != "", f.gets != "", len(limits) > 0} {
				if is {
					given++
				}
			}
			switch {
			case given != 1:
				return "", errors.New("want one of --to, --tier and --limit")
			case f.gets != "":
				return override.TierPrefix + f.gets, nil
			case len(limits) > 0:
				return NumbersSetting(limits)
			}
			return to, nil
		})
	command.Flags().StringVar(&to, "to", "", "block, free, or a factor such as x2 or x0.5")
	command.Flags().StringArrayVar(&limits, "limit", nil,
		"LIMIT=UNITS or LIMIT=UNITS/BURST: absolute numbers for a limit, by its policy name; may repeat")
	command.AddCommand(overrideListCommand(c), importCommand(c), exportCommand(c), diffCommand(c))
	return command
}

func overrideListCommand(c *console.Console) *cobra.Command {
	f := new(Flags)
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
			if _, err := Tagged(s.limiter.Config, rule, "", ""); err != nil {
				return console.Usage("%w", err)
			}
		}
		all, err := s.client.Overrides(ctx, s.limiter.Config, rule)
		if err != nil {
			return console.Redis(err)
		}
		if s.JSON() {
			return s.Print(map[string]any{"overrides": append([]Overridden{}, all...)})
		}
		if len(all) == 0 {
			s.Say("no override is in force\n")
			return nil
		}
		rows := [][]string{{"RULE", "IDENTITY", "OVERRIDE", "FOR ANOTHER", "REASON"}}
		for i := range all {
			o := &all[i]
			left, value, valid := "(without end)", o.Value, override.Parse(o.Value).Kind != override.Nonsense
			if o.ForMicros >= 0 {
				left = console.Wait(o.ForMicros)
			}
			if o.Rule != "" {
				id, err := Tagged(s.limiter.Config, o.Rule, "", o.Identity)
				valid = err == nil && CheckSetting(o.Value, id) == nil
			}
			if !valid {
				value += " (not valid)"
			}
			rows = append(rows, []string{cmp.Or(o.Rule, "(unknown)"), console.Identity(o.Identity), value, left, o.Reason})
		}
		return s.Table(rows)
	})
}

// changed is the output of the commands that change something.
type changed struct {
	Rule    string `json:"rule"`
	Tag     string `json:"tag"`
	Deleted int64  `json:"deleted"`         // keys
	Value   string `json:"value,omitempty"` // that was set
	For     string `json:"for,omitempty"`
}

// printChange prints what was done to an identity.
func (s *session) printChange(id *Identity, done changed, text string) error {
	done.Rule, done.Tag = id.Rule.Name, string(id.Tag)
	if s.JSON() {
		return s.Print(&done)
	}
	s.Say("%s: %s\n", done.Tag, text)
	return nil
}

// removal makes a command that deletes something of an identity, and says how many keys.
func (f *Flags) removal(c *console.Console, use, short, long string,
	remove func(*Client, context.Context, *Identity) (int64, error), say func(n int64) string,
) *cobra.Command {
	return f.identityCommand(c, use, short, long,
		func(ctx context.Context, s *session, id *Identity) error {
			n, err := remove(s.client, ctx, id)
			if err != nil {
				return console.Redis(err)
			}
			text := say(n)
			if id.Scanned {
				text += " (values of \"per\" found by a SCAN)"
			}
			return s.printChange(id, changed{Deleted: n}, text)
		})
}

func resetCommand(c *console.Console) *cobra.Command {
	f := new(Flags)
	command := f.removal(c, "reset", "Forget what an identity has used of its limits",
		"Reset deletes the state of an identity, of all limits of the rule. Overrides stay.\nA worker that remembers a "+
			"rejection forgets it within ten seconds. With --per it deletes that of these\nvalues alone.",
		(*Client).Reset, func(n int64) string {
			if n == 0 {
				return "there was nothing to forget"
			}
			return fmt.Sprintf("the state of %s is forgotten", console.Count(int(n), "limit"))
		})
	f.addPer(command)
	return command
}

func unblockCommand(c *console.Console) *cobra.Command {
	return new(Flags).removal(c, "unblock", "Remove an identity's override or penalty",
		"Unblock removes blocks, other overrides and penalties.",
		(*Client).Unblock, func(n int64) string {
			if n == 0 {
				return "there was no override and no penalty"
			}
			return "its limits are in force again"
		})
}
