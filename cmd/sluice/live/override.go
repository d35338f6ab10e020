package live

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/cmd/sluice/duration"
	"github.com/sluiceproxy/sluice/cmd/sluice/shown"
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
				return console.Misuse(err)
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
			if err := s.write(ctx, o); err != nil {
				return err
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
			switch {
			case to != "" && f.tier == "" && limits == nil:
				return to, nil
			case f.tier != "" && to == "" && limits == nil:
				return override.TierPrefix + f.tier, nil
			case limits == nil || to+f.tier != "":
				return "", errors.New("want one of --to, --tier and --limit")
			}
			var list []byte
			for _, limit := range limits { // its name is as it is: it may have "=" in it
				at := strings.LastIndexByte(limit, '=')
				if at < 1 {
					return "", fmt.Errorf("--limit: %q is not a number for a limit (want LIMIT=UNITS or LIMIT=UNITS/BURST)", limit)
				}
				units, burst, _ := strings.Cut(limit[at+1:], "/")
				list = override.AppendNumber(list, limit[:at], units, burst)
			}
			return override.NumbersPrefix + string(list), nil
		})
	command.Flags().StringVar(&to, "to", "", "block, free, or a factor such as x2 or x0.5")
	command.Flags().StringArrayVar(&limits, "limit", nil,
		"LIMIT=UNITS or LIMIT=UNITS/BURST: absolute numbers for a limit, by its policy name; may repeat")
	command.AddCommand(overrideListCommand(c), importCommand(c, false), exportCommand(c), importCommand(c, true))
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
	return f.walking(c, command, func(ctx context.Context, s *session, args []string) error {
		name := strings.Join(args, "")
		if len(args) > 0 {
			if _, err := NewTagger(s.limiter.Config, name); err != nil {
				return console.Misuse(err)
			}
		}
		all, err := s.overrides(ctx, name)
		if err != nil {
			return err
		}
		var t *Tagger
		rows := [][]string{{"RULE", "IDENTITY", "OVERRIDE", "FOR ANOTHER", "REASON"}}
		for i := range all {
			o := &all[i]
			left, value, valid := "(without end)", o.Value, override.Parse(o.Value).Kind != override.Nonsense
			if o.ForMicros >= 0 {
				left = console.Wait(o.ForMicros)
			}
			if o.Rule != "" {
				if t == nil || t.Rule.Name != o.Rule {
					t, err = NewTagger(s.limiter.Config, o.Rule)
				}
				valid = err == nil && CheckSetting(o.Value, t.Any) == nil
			}
			if !valid {
				value += " (not valid)"
			}
			rows = append(rows, []string{cmp.Or(o.Rule, "(unknown)"), console.Identity(o.Identity), value, left, o.Reason})
		}
		return s.Show(map[string]any{"overrides": append([]Overridden{}, all...)}, rows, "no override is in force")
	})
}

// want says what a setting may be.
const want = "want block, free, a factor such as x2 or x0.5, from x0.001 to x1000, tier:NAME, or limits:LIMIT=UNITS"

// CheckSetting accepts what the plugin takes for an override of an identity.
func CheckSetting(setting string, id *Identity) error {
	switch o := override.Parse(setting); o.Kind {
	case override.None, override.Nonsense:
		if len(setting) > algo.MaxOverrideBytes {
			return fmt.Errorf("an override of %d bytes (want at most %d)", len(setting), algo.MaxOverrideBytes)
		}
		return fmt.Errorf("%q is not an override (%s)", setting, want)
	case override.Tier:
		tiers := id.Tiers()
		switch {
		case len(tiers) == 0:
			return fmt.Errorf(`there is no tier %q: the rule has no tiers (want "limits_by")`, o.Rest)
		case !slices.Contains(tiers, o.Rest):
			return fmt.Errorf("there is no tier %q (want one of %s)", o.Rest, shown.Quoted(tiers))
		}
		return nil
	case override.Numbers:
		var names []string
		bursts := map[string]bool{} // whether a limit takes one
		for _, set := range id.Sets {
			if _, ok := set.SizesOf(nil, nil, o); ok {
				return nil
			}
			for i := range set.Labels {
				name := set.Labels[i].Name
				if !slices.Contains(names, name) {
					names = append(names, name)
				}
				bursts[name] = bursts[name] || set.Limits[i].Algorithm.HasBurst()
			}
		}
		if len(names) == 0 {
			return fmt.Errorf("limits:%s: there are no limits to change", o.Rest)
		}
		var seen []string // no set takes it: what is wrong with it
		for rest := o.Rest; rest != ""; {
			part, _, _ := strings.Cut(rest, ",")
			n, others, ok := override.Next(rest)
			if !ok {
				return fmt.Errorf("%q is not a number for a limit (want LIMIT=UNITS or LIMIT=UNITS/BURST: units from 0, a burst "+
					"from 1, both to %d)", part, algo.MaxUnits)
			}
			at := slices.IndexFunc(names, func(name string) bool { return override.Names(n.Limit, name) })
			switch {
			case at < 0:
				return fmt.Errorf("there is no limit %q (want one of %s)", n.Limit, shown.Quoted(names))
			case slices.Contains(seen, names[at]):
				return fmt.Errorf("limit %q has two numbers", names[at])
			case n.Burst > 0 && !bursts[names[at]]:
				return fmt.Errorf("limit %q takes no burst (want %s=%d)", names[at], n.Limit, n.Units)
			}
			seen, rest = append(seen, names[at]), others
		}
		return fmt.Errorf("limits:%s: no tier has all of these limits", o.Rest)
	}
	return nil
}
