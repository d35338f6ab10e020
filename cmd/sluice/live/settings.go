package live

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/internal/yamltree"
)

// settable are the flags that the environment and the file of settings may set: how Redis and Envoy
// are reached, and with which configuration.
var settable = []string{
	"config", "redis", "redis-cluster", "redis-tls", "redis-ca", "redis-server-name", "redis-user", "redis-password-env",
	"timeout", "envoy",
}

// settle gives flags that are not on the command line the values that the environment has for them,
// SLUICE_REDIS for --redis, else those of the file of settings.
func settle(c *console.Console, flags *pflag.FlagSet) error {
	name, values, err := settings(c)
	if err != nil {
		return err
	}
	for _, flag := range settable {
		f := flags.Lookup(flag)
		if f == nil || f.Changed {
			continue
		}
		variable := "SLUICE_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
		value, from := c.Environment(variable), variable
		if value == "" {
			value, from = values[flag], name
		}
		if value == "" {
			continue
		}
		if err := flags.Set(flag, value); err != nil {
			return console.Usage("%s: %w", from, err)
		}
	}
	return nil
}

// settings reads the file of settings, $SLUICE_SETTINGS or sluice.yaml among the user's
// configuration (https://specifications.freedesktop.org/basedir-spec/latest/). It need not exist.
func settings(c *console.Console) (name string, values map[string]string, err error) {
	name = c.Environment("SLUICE_SETTINGS")
	wanted := name != ""
	if !wanted {
		dir := c.Environment("XDG_CONFIG_HOME")
		if dir == "" && c.Environment("HOME") != "" {
			dir = filepath.Join(c.Environment("HOME"), ".config")
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
		return name, nil, &console.Failure{Code: console.Misused, Err: err}
	}
	if values, err = readSettings(text); err != nil {
		return name, nil, console.Usage("%s: %w", name, err)
	}
	return name, values, nil
}

// readSettings reads names of flags and their values.
func readSettings(text []byte) (map[string]string, error) {
	values := map[string]string{}
	for root, err := range yamltree.Documents(text) {
		if err != nil {
			return nil, err
		}
		if root.Kind != yaml.MappingNode {
			return nil, errors.New("want names of flags and their values, such as redis: redis.example.com:6379")
		}
		for key, value := range yamltree.Fields(root) {
			switch {
			case !slices.Contains(settable, key.Value):
				return nil, fmt.Errorf("line %d: %q is not a setting (want one of %s)", key.Line, key.Value,
					strings.Join(settable, ", "))
			case value.Kind == yaml.ScalarNode:
				values[key.Value] = value.Value
			case value.Kind == yaml.SequenceNode && key.Value == "redis":
				var all []string
				for _, n := range value.Content {
					all = append(all, n.Value)
				}
				values[key.Value] = strings.Join(all, ",")
			default:
				return nil, fmt.Errorf("line %d: %s is not a text", value.Line, key.Value)
			}
		}
		break // the first document has all
	}
	return values, nil
}
