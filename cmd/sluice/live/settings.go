package live

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/cmd/sluice/shown"
	"github.com/sluiceproxy/sluice/internal/yamltree"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/override"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// settable are the flags that the environment and the file of settings may set: how Redis and Envoy
// are reached, and with which configuration.
var settable = []string{
	"config", "redis", "redis-cluster", "redis-tls", "redis-ca", "redis-server-name", "redis-user", "redis-password-env",
	"timeout", "envoy",
}

// FromEnvironment gives flags that are not on the command line the values that the environment has for
// them, SLUICE_REDIS for --redis, else those of the file of settings.
func FromEnvironment(c *console.Console) func(called *cobra.Command, _ []string) error {
	return func(called *cobra.Command, _ []string) error {
		file, values, err := settings(c)
		if err != nil {
			return console.Usage("%w", err)
		}
		for _, flag := range settable {
			f := called.Flags().Lookup(flag)
			if f == nil || f.Changed {
				continue
			}
			from := "SLUICE_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
			value, _ := c.Environment(from)
			if value == "" {
				value, from = values[flag], file
			}
			if value == "" {
				continue
			}
			if err := called.Flags().Set(flag, value); err != nil {
				return console.Usage("%s: %w", from, err)
			}
		}
		return nil
	}
}

// settings reads the file of settings, names of flags and their values: $SLUICE_SETTINGS, or sluice.yaml among
// the user's configuration (https://specifications.freedesktop.org/basedir-spec/latest/). It need not exist.
func settings(c *console.Console) (name string, values map[string]string, err error) {
	name, _ = c.Environment("SLUICE_SETTINGS")
	wanted := name != ""
	if !wanted {
		dir, _ := c.Environment("XDG_CONFIG_HOME")
		if home, _ := c.Environment("HOME"); dir == "" && home != "" {
			dir = filepath.Join(home, ".config")
		}
		if dir == "" {
			return "", nil, nil
		}
		name = filepath.Join(dir, "sluice.yaml")
	}
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) && !wanted {
		return name, nil, nil
	}
	if err != nil {
		return name, nil, err
	}
	values = map[string]string{}
	for root, err := range yamltree.Documents(text) {
		if err != nil {
			return name, nil, fmt.Errorf("%s: %w", name, err)
		}
		if root.Kind != yaml.MappingNode {
			return name, nil, fmt.Errorf("%s: want names of flags and their values, such as redis: redis.example.com:6379", name)
		}
		for key, value := range yamltree.Fields(root) {
			switch {
			case !slices.Contains(settable, key.Value):
				return name, nil, fmt.Errorf("%s: line %d: %q is not a setting (want one of %s)", name, key.Line, key.Value,
					strings.Join(settable, ", "))
			case value.Kind == yaml.SequenceNode && key.Value == "redis":
				for _, n := range value.Content {
					values["redis"] = strings.TrimPrefix(values["redis"]+","+n.Value, ",")
				}
			case value.Kind != yaml.ScalarNode:
				return name, nil, fmt.Errorf("%s: line %d: %s is not a text", name, value.Line, key.Value)
			default:
				values[key.Value] = value.Value
			}
		}
		break // the first document has all
	}
	return name, values, nil
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
		for _, set := range id.Sets {
			if _, ok := set.SizesOf(nil, nil, o); ok {
				return nil
			}
			for i := range set.Labels {
				if !slices.Contains(names, set.Labels[i].Name) {
					names = append(names, set.Labels[i].Name)
				}
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
			case n.Burst > 0 && !slices.ContainsFunc(id.Sets, func(set *rule.LimitSet) bool {
				return slices.ContainsFunc(set.Limits, func(l config.Limit) bool {
					return l.Name == names[at] && l.Algorithm.HasBurst()
				})
			}):
				return fmt.Errorf("limit %q takes no burst (want %s=%d)", names[at], n.Limit, n.Units)
			}
			seen, rest = append(seen, names[at]), others
		}
		return fmt.Errorf("limits:%s: no tier has all of these limits", o.Rest)
	}
	return nil
}
