package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluiceproxy/sluice/cmd/sluice/find"
	"github.com/sluiceproxy/sluice/plugin/config"
)

// source is the flag that names a configuration.
type source struct{ file string }

func (s *source) flag(command *cobra.Command) {
	command.Flags().StringVarP(&s.file, "config", "c", "",
		`file with the plugin's configuration: JSON, or a file that contains it; "-" is standard input`)
	must(command.MarkFlagRequired("config"))
	must(command.MarkFlagFilename("config", "json", "yaml", "yml"))
}

// addresses is a flag of one or more "host:port", which may repeat. Unlike pflag's own list of
// strings it loses nothing that follows the end of a line.
type addresses []string

// Set implements pflag.Value.
func (a *addresses) Set(text string) error {
	*a = append(*a, strings.Split(text, ",")...)
	return nil
}

// Type implements pflag.Value.
func (a *addresses) Type() string { return "strings" }

// String implements pflag.Value.
func (a *addresses) String() string { return strings.Join(*a, ",") }

// must holds for what only a mistake in this program could break.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// limiter is a configuration that a command works with.
type limiter struct {
	json []byte
	cfg  *config.Config
}

// limiter reads the only configuration of a limiter in a file.
func (a *app) limiter(s source) (*limiter, error) {
	text, err := a.read(s.file)
	if err != nil {
		return nil, err
	}
	found, _, err := find.Configurations(s.file, text)
	if err != nil {
		return nil, usage("%s: %w", s.file, err)
	}
	if len(found) == 0 {
		found = []find.Found{find.Whole(text)}
	}
	var all []*limiter
	for i := range found {
		cfg, err := load(found[i].JSON)
		if err != nil {
			return nil, &failure{exitRefused, mistaken(s.file, err)}
		}
		if !cfg.Bridge {
			all = append(all, &limiter{found[i].JSON, cfg})
		}
	}
	if len(all) != 1 {
		return nil, usage("%s has %d configurations of the limiter (want a file with one)", s.file, len(all))
	}
	return all[0], nil
}

// mistaken names the file and the mistakes of its configuration.
func mistaken(file string, err error) error {
	var mistakes config.Mistakes
	if !errors.As(err, &mistakes) {
		return fmt.Errorf("%s: %w", file, err)
	}
	lines := []string{file + " has mistakes:"}
	for _, m := range mistakes {
		lines = append(lines, "  "+strings.TrimPrefix(m.String(), "sluice: "))
	}
	return errors.New(strings.Join(lines, "\n"))
}
